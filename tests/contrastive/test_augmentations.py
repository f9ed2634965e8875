"""Does each batched operation equal torchvision's, image by image, for the same draws?"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as tv

from contrastive.augmentations import PIPELINES, Draws, draw_epoch
from contrastive.augmentations.blur import gaussian_blur
from contrastive.augmentations.colour import brightness, contrast, hue, jitter, saturation
from contrastive.augmentations.geometry import affine, crop_boxes, crop_resize_flip

GENERATOR = torch.Generator().manual_seed(3)
IMAGES = torch.rand(12, 3, 32, 32, generator=GENERATOR)
FACTORS = torch.linspace(0.3, 1.7, 12)


def test_crop_resize_flip_equals_torchvision():
    boxes = torch.tensor([[0, 0, 32, 32], [3, 5, 20, 9], [11, 0, 7, 32], [30, 30, 2, 2]] * 3)
    flip = torch.tensor([False, True] * 6)
    ours = crop_resize_flip(IMAGES, boxes.float(), flip)
    for image, box, mirrored, result in zip(IMAGES, boxes.tolist(), flip, ours, strict=True):
        expected = tv.resized_crop(image, *box, [32, 32], antialias=False)
        expected = tv.hflip(expected) if mirrored else expected
        torch.testing.assert_close(result, expected, atol=2e-6, rtol=0)


def test_affine_equals_torchvision():
    angle, scale = torch.linspace(-45, 45, 12), torch.linspace(0.7, 1.3, 12)
    shift = torch.stack([torch.arange(-6, 6), torch.arange(6, -6, -1)], dim=1).float()
    ours = affine(IMAGES, angle=angle, scale=scale, shift=shift)
    for i, image in enumerate(IMAGES):
        expected = tv.affine(
            image, angle[i].item(), shift[i].int().tolist(), scale[i].item(), [0.0, 0.0],
            InterpolationMode.BILINEAR,
        )  # fmt: skip
        torch.testing.assert_close(ours[i], expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    ("ours", "theirs", "factors"),
    [
        (brightness, tv.adjust_brightness, FACTORS),
        (contrast, tv.adjust_contrast, FACTORS),
        (saturation, tv.adjust_saturation, FACTORS),
        (hue, tv.adjust_hue, torch.linspace(-0.5, 0.5, 12)),
    ],
    ids=["brightness", "contrast", "saturation", "hue"],
)
def test_colour_changes_equal_torchvision(ours, theirs, factors):
    images = IMAGES.clone()
    images[0] = 0.4  # a grey image has no hue to turn
    result = ours(images, factors)
    expected = torch.stack([theirs(x, f.item()) for x, f in zip(images, factors, strict=True)])
    torch.testing.assert_close(result, expected, atol=3e-6, rtol=0)


def test_jitter_follows_each_images_own_order():
    order = torch.stack([torch.randperm(4, generator=GENERATOR) for _ in range(12)])
    factors = torch.stack([FACTORS, FACTORS.flip(0), FACTORS, FACTORS - 1], dim=1)
    factors[:, 3] = factors[:, 3].clamp(-0.5, 0.5)
    ours = jitter(IMAGES.clone(), factors, order)
    theirs = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)
    for i, image in enumerate(IMAGES):
        for which in order[i].tolist():
            image = theirs[which](image, factors[i, which].item())
        torch.testing.assert_close(ours[i], image, atol=2e-5, rtol=0)


def test_blur_equals_torchvision():
    sigma = torch.linspace(0.1, 2.0, 12)
    ours = gaussian_blur(IMAGES, sigma)
    for image, width, result in zip(IMAGES, sigma, ours, strict=True):
        expected = tv.gaussian_blur(image, [3, 3], [width.item()] * 2)
        torch.testing.assert_close(result, expected, atol=2e-6, rtol=0)


def test_boxes_follow_torchvisions_law():
    """Areas and ratios of boxes against 4,000 of torchvision's: Kolmogorov-Smirnov, α = 1e-4."""
    from torchvision.transforms import RandomResizedCrop

    draws = draw_epoch({"crop": 20, "position": 2}, seed=5, epoch=1, views=1, images=4000)
    ours = crop_boxes(draws["crop"], draws["position"], height=32, width=32)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        image = torch.zeros(3, 32, 32)
        law = ([0.08, 1.0], [3 / 4, 4 / 3])
        theirs = torch.tensor(
            [RandomResizedCrop.get_params(image, *law) for _ in range(4000)], dtype=torch.float
        )
    for column in range(4):
        test = stats.ks_2samp(ours[:, column].numpy(), theirs[:, column].numpy())
        assert test.pvalue > 1e-4
    assert (ours[:, :2] >= 0).all()
    assert (ours[:, 0] + ours[:, 2] <= 32).all()
    assert (ours[:, 1] + ours[:, 3] <= 32).all()


def test_a_box_that_never_fits_falls_back_to_the_largest_centred_one():
    never = torch.cat([torch.full((1, 10), 0.999), torch.ones(1, 10)], dim=1)
    box = crop_boxes(never, torch.zeros(1, 2), height=32, width=32)
    assert box.tolist() == [[0, 0, 32, 32]]


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("family", ["natural", "digits"])
def test_blur_prob_is_the_share_of_blurred_views(family: str, rate: float):
    """Within 5 standard errors of a binomial: false alarms below 1e-6."""
    pipeline, count = PIPELINES[family], 2000
    channels = 3 if family == "natural" else 1
    images = torch.rand(count, channels, 8, 8, generator=GENERATOR)
    draws = draw_epoch(pipeline.widths, seed=1, epoch=1, views=1, images=count)
    sharp = pipeline(images, draws, blur_prob=0.0)
    views = pipeline(images, draws, blur_prob=rate)
    blurred = (views != sharp).flatten(1).any(1).float().mean().item()
    # The narrowest kernels, σ near 0.1, leave a float32 image as it is.
    unseen = 0.06
    tolerance = 5 * np.sqrt(rate * (1 - rate) / count)
    assert rate * (1 - unseen) - tolerance <= blurred <= rate + tolerance


def test_raising_blur_prob_keeps_every_blurred_view():
    pipeline = PIPELINES["digits"]
    draws = draw_epoch(pipeline.widths, seed=1, epoch=1, views=1, images=500)
    images = torch.rand(500, 1, 16, 16, generator=GENERATOR)
    sharp, some, more = (pipeline(images, draws, blur_prob=p) for p in (0.0, 0.4, 0.8))
    were = (some != sharp).flatten(1).any(1)
    assert torch.equal(some[were], more[were])


@pytest.mark.parametrize("family", ["natural", "digits"])
def test_views_stay_in_range_and_do_not_depend_on_the_batch(family: str):
    pipeline, channels = PIPELINES[family], 3 if family == "natural" else 1
    images = torch.rand(40, channels, 16, 16, generator=GENERATOR)
    before = images.clone()
    draws = draw_epoch(pipeline.widths, seed=2, epoch=1, views=1, images=40)
    whole = pipeline(images, draws, blur_prob=0.5)
    assert torch.equal(images, before)
    assert whole.min() >= 0
    assert whole.max() <= 1
    rows = torch.tensor([7, 3, 31])
    torch.testing.assert_close(
        pipeline(images[rows], draws.rows(rows), blur_prob=0.5), whole[rows], atol=1e-6, rtol=0
    )


def test_a_view_more_leaves_the_other_views_draws_as_they_are():
    widths = PIPELINES["natural"].widths
    two = draw_epoch(widths, seed=4, epoch=2, views=2, images=10)
    three = draw_epoch(widths, seed=4, epoch=2, views=3, images=10)
    for purpose in widths:
        assert torch.equal(two.values[purpose], three.values[purpose][:20])
        assert not torch.equal(two.values[purpose][:10], two.values[purpose][10:])


def test_draws_of_width_one_are_flat():
    draws = Draws({"flip": torch.zeros(5, 1), "crop": torch.zeros(5, 20)})
    assert draws["flip"].shape == (5,)
    assert draws["crop"].shape == (5, 20)
    assert len(draws.rows(torch.tensor([1, 2]))) == 2
