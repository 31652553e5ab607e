//! The figures of a card, from the most valuable figure to the least.
//!
//! Knows no device. Which kernel is the best one follows from the figures that are there when a
//! step begins.

use engine::gpu::{GenerationForm, KernelForm};

use super::scale::BenchScale;

/// The workgroup size with which kernels are compared.
pub(super) const FIRST_WORKGROUP: u32 = 64;
/// Other workgroup sizes, for the best kernel.
const OTHER_WORKGROUPS: [u32; 4] = [128, 256, 32, 512];

/// A kernel that a step measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelPick {
    /// A kernel that is named.
    This(KernelForm),
    /// The fastest one so far on this dataset.
    Best,
}

/// One measurement on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CardFigure {
    /// Compares all kernels with the CPU on a small dataset of this many pages.
    SmallChecks { pages: u32 },
    /// Generates the dataset in this form, or in the usual one, and compares items.
    Dataset { form: Option<GenerationForm> },
    /// The best rates of the memory.
    Ceilings,
    /// Compares the hits of a kernel with the CPU, then measures its rate.
    Hashrate { kernel: KernelPick, workgroup_size: u32 },
    /// The rate and the latency of the best kernel with batches of this length.
    Batch { milliseconds: u32 },
    /// The kernel that the choice at start-up takes.
    Choice,
}

/// A step of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlanStep {
    /// A measurement on a card, on the dataset of an epoch, with large or usual pages.
    Card {
        epoch: u32,
        large_pages: bool,
        figure: CardFigure,
    },
    /// Mining for a node.
    Steady,
}

/// Returns the steps for a card.
pub(super) fn card_steps(scale: BenchScale) -> Vec<PlanStep> {
    let mut steps = Vec::new();
    let epochs = scale.epochs();
    let first = epochs.first().copied().unwrap_or(0);
    let small = |pages: &u32| card(first, false, CardFigure::SmallChecks { pages: *pages });
    let (first_counts, other_counts) = scale.page_counts();
    steps.extend(first_counts.iter().map(small));
    for epoch in epochs {
        steps.extend(main_figures(*epoch));
    }
    steps.extend(setting_figures(first, scale));
    steps.push(PlanStep::Steady);
    steps.extend(other_counts.iter().map(small));
    for epoch in epochs {
        if *epoch != first {
            steps.extend(setting_figures(*epoch, scale));
        }
    }
    // With subgroups, the form without them is unlikely to be the fastest.
    steps.extend(
        epochs
            .iter()
            .map(|epoch| card(*epoch, false, hashrate(KernelForm::Group))),
    );
    steps
}

const fn card(epoch: u32, large_pages: bool, figure: CardFigure) -> PlanStep {
    PlanStep::Card {
        epoch,
        large_pages,
        figure,
    }
}

const fn hashrate(form: KernelForm) -> CardFigure {
    CardFigure::Hashrate {
        kernel: KernelPick::This(form),
        workgroup_size: FIRST_WORKGROUP,
    }
}

/// The figures that tell how good the miner is.
fn main_figures(epoch: u32) -> Vec<PlanStep> {
    let figures = [
        CardFigure::Dataset { form: None },
        CardFigure::Ceilings,
        hashrate(KernelForm::Shuffle),
        hashrate(KernelForm::Shuffle2),
        hashrate(KernelForm::Lane),
        CardFigure::Choice,
    ];
    figures.map(|figure| card(epoch, false, figure)).into()
}

/// The figures that tell which settings to keep.
fn setting_figures(epoch: u32, scale: BenchScale) -> Vec<PlanStep> {
    let best = |workgroup_size| CardFigure::Hashrate {
        kernel: KernelPick::Best,
        workgroup_size,
    };
    let mut figures: Vec<_> = OTHER_WORKGROUPS.map(best).into();
    let batches = scale.batches_ms().iter().copied();
    figures.extend(batches.map(|milliseconds| CardFigure::Batch { milliseconds }));
    let mut steps: Vec<_> = (figures.into_iter())
        .map(|figure| card(epoch, false, figure))
        .collect();
    let slices = scale.slices().iter().copied();
    let forms = slices.map(|slices| Some(GenerationForm::in_slices(slices)));
    steps.extend(forms.map(|form| card(epoch, false, CardFigure::Dataset { form })));
    let large = [
        CardFigure::Dataset { form: None },
        CardFigure::Ceilings,
        best(FIRST_WORKGROUP),
    ];
    steps.extend(large.map(|figure| card(epoch, true, figure)));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_begins_with_correctness_and_has_every_figure_once() {
        check_plan(BenchScale::Small);
        check_plan(BenchScale::Full);
    }

    fn check_plan(scale: BenchScale) {
        let steps = card_steps(scale);
        let checks = |step: &PlanStep| {
            matches!(
                step,
                PlanStep::Card {
                    figure: CardFigure::SmallChecks { .. },
                    ..
                }
            )
        };
        assert!(
            checks(&steps[0]) && checks(&steps[1]) && !checks(&steps[2]),
            "{scale:?}"
        );
        for (place, step) in steps.iter().enumerate() {
            assert!(!steps[..place].contains(step), "{step:?} comes twice");
        }
        assert_eq!(steps.iter().filter(|step| **step == PlanStep::Steady).count(), 1);
        for form in KernelForm::ALL {
            for epoch in [0, 385] {
                let wanted = card(epoch, false, hashrate(form));
                assert!(steps.contains(&wanted), "{wanted:?}");
            }
        }
        // Before anything else of an epoch comes its dataset, and then what limits its rates.
        for epoch in [0, 385] {
            let own: Vec<_> = (steps.iter())
                .filter_map(|step| match step {
                    PlanStep::Card {
                        epoch: of, figure, ..
                    } if *of == epoch && !checks(step) => Some(*figure),
                    _ => None,
                })
                .collect();
            assert_eq!(
                own[..2],
                [CardFigure::Dataset { form: None }, CardFigure::Ceilings]
            );
        }
    }
}
