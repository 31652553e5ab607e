//! Our executor against the independent one that is installed with the JavaScript clients.
//!
//! The seeds are fixed. `DIFFERENTIAL_SEED`, `DIFFERENTIAL_COUNT` and `DIFFERENTIAL_SECONDS` choose
//! others for longer runs.

use std::time::Duration;

use differential::campaign::{SeedRange, compare_seeds};
use differential::client::IndependentExecutor;
use differential::compare::{first_difference, first_step};
use differential::rules::{ForkRules, RULES};
use differential::{generate, ours};

/// Seeds of an ordinary run, for each fork.
const SEEDS: u64 = 12;

pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|error| panic!("{variable}: got {text}, expected a number: {error}")))
}

#[test]
fn both_executors_agree() {
    let Some(mut client) = IndependentExecutor::installed() else {
        return;
    };
    let rules: Vec<&'static ForkRules> = RULES.iter().filter(|rules| rules.client.is_some()).collect();
    let seeds = SeedRange {
        first: number("DIFFERENTIAL_SEED").unwrap_or(1),
        count: number("DIFFERENTIAL_COUNT").unwrap_or(SEEDS),
        time: number("DIFFERENTIAL_SECONDS").map(Duration::from_secs),
    };
    let report = compare_seeds(seeds, &rules, &mut client, |difference| {
        println!("{difference}\n")
    });
    e2e::note(&format!(
        "{} cases, {} transactions executed, {} refused",
        report.cases, report.executed, report.refused
    ));
    assert_eq!(report.differences.len(), 0, "differences are listed above");
    // Most transactions are valid, and some are not.
    assert!(report.executed > report.cases && report.refused > 0, "{report:?}");
}

/// Seeds within which the rules of two forks in a row must show a difference.
const TELLING_SEEDS: u64 = 60;

#[test]
fn each_fork_is_told_from_the_one_before() {
    let Some(mut client) = IndependentExecutor::installed() else {
        return;
    };
    let rules: Vec<&'static ForkRules> = RULES.iter().filter(|rules| rules.client.is_some()).collect();
    for pair in rules.windows(2) {
        let [before, after] = [pair[0], pair[1]];
        // Our side runs the programs of the later fork by the rules of the fork before it.
        let found = (1..=TELLING_SEEDS).find_map(|seed| {
            let case = generate::case(seed, after);
            let spec = ours::spec_of(before).expect("the fork is known");
            let own = ours::execute(&case, spec).expect("the case is executed");
            let answer = client.execute(&case, &own, None).expect("the other side answers");
            Some((seed, first_difference(&own, &answer)?))
        });
        let (seed, difference) =
            found.unwrap_or_else(|| panic!("{} is not told from {}", after.name, before.name));
        e2e::note(&format!(
            "{} by the rules of {}: seed {seed}: {:.160}",
            after.name,
            before.name,
            difference.to_string()
        ));
    }
}

#[test]
fn the_step_of_another_gas_price_is_found() {
    let Some(mut client) = IndependentExecutor::installed() else {
        return;
    };
    // SLOAD costs 200 on our side and 800 on the other.
    let istanbul = ForkRules::named("Istanbul").expect("a row");
    let petersburg = ForkRules::named("ConstantinopleFix").expect("a row");
    let found = (1..=TELLING_SEEDS).find_map(|seed| {
        let case = generate::case(seed, istanbul);
        let spec = ours::spec_of(petersburg).expect("the fork is known");
        let own = ours::execute(&case, spec).expect("the case is executed");
        let answer = client.execute(&case, &own, None).expect("the other side answers");
        let place = first_difference(&own, &answer)?.place?;
        let answer = client
            .execute(&case, &own, Some(place))
            .expect("the other side answers");
        let steps = own.trace(place.block, place.transaction).ok()?;
        let steps: Vec<_> = steps.iter().map(Into::into).collect();
        // Input has another price, too. It shows at the first step, so other steps are waited for.
        first_step(&steps, &answer.steps).filter(|text| text.contains("after SLOAD"))
    });
    let step = found.expect("some transaction shows it");
    assert!(step.contains("ours") && step.contains("theirs"), "{step}");
}
