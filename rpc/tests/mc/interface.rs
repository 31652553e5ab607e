//! Checks every method of the interface and of the table: it has a row, it takes the parameters of
//! its signature, and it has an example.

use rpc::methods;
use serde_json::{Value, json};

use crate::mc::examples::{Examples, SESSION_METHODS, WITHOUT_EXAMPLE};
use crate::mc::harness::Net;
use crate::mc::subscriptions::Client;

/// The interface's methods.
const INTERFACE: &str = include_str!("interface.txt");

/// A line of the interface.
struct Line {
    name: &'static str,
    required: usize,
    count: usize,
    result: &'static str,
}

fn interface() -> Vec<Line> {
    let lines = INTERFACE.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            let [name, required, count, result] = words[..] else {
                panic!("interface.txt: got {line:?}, expected four words")
            };
            Line {
                name,
                required: required.parse().expect("a number"),
                count: count.parse().expect("a number"),
                result,
            }
        })
        .collect()
}

#[test]
fn every_method_of_the_interface_is_there() {
    let rows = methods::all();
    let examples = Examples::read();
    for line in interface() {
        let name = line.name;
        let row = rows.iter().find(|row| row.name() == name);
        let row = row.unwrap_or_else(|| panic!("no row for {name}"));
        let signature = row.info().signature();
        let required = signature.params.iter().filter(|param| param.is_required).count();
        // A method may take more parameters than the interface says, if they may be left out.
        assert_eq!(required, line.required, "{name}");
        assert!(signature.params.len() >= line.count, "{name}");
        assert_eq!(signature.result.to_string(), line.result, "{name}");
        assert!(examples.get(name).is_some(), "{name} has no example");
    }
}

#[test]
fn the_interface_has_sixty_methods() {
    let names: std::collections::BTreeSet<_> = interface().iter().map(|line| line.name).collect();
    assert_eq!((names.len(), interface().len()), (60, 60));
}

/// Compares the signature with the parameters that the handler reads.
#[test]
fn methods_take_the_parameters_of_their_signature() {
    let net = Net::start();
    let mut client = Client::connect(&net);
    let mut check = |name: &str, params: Value, message: &str| {
        if SESSION_METHODS.contains(&name) {
            let answer = client.call(name, params);
            let expected = json!({"code": -32602, "message": message});
            assert_eq!(answer["error"], expected, "{name}");
        } else {
            net.check_error(name, params, -32602, message);
        }
    };
    let examples = Examples::read();
    for row in methods::all() {
        let name = row.name();
        let signature = row.info().signature();
        assert!(!row.info().summary().is_empty(), "{name} has no summary");
        let count = signature.params.len();
        let many = json!(vec![Value::Null; count + 1]);
        let message = format!("too many arguments, want at most {count}");
        check(name, many, &message);

        let required = signature.params.iter().filter(|param| param.is_required).count();
        let optional_last = signature.params[..required].iter().all(|param| param.is_required);
        assert!(optional_last, "{name} requires a parameter after an optional one");
        let params = examples.get(name).map(|example| example["params"].clone());
        let example_params = params
            .as_ref()
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        for missing in 0..required {
            // A block reference may be null, but may not be left out if a parameter follows it.
            let params = json!(example_params.get(..missing).unwrap_or_default());
            if signature.params[missing].wire_type.to_string() == "BLOCKREF" {
                continue;
            }
            let message = format!("missing value for required argument {missing}");
            check(name, params, &message);
        }
    }
}

#[test]
fn every_described_method_has_an_example() {
    let examples = Examples::read();
    for row in methods::all() {
        assert!(
            examples.get(row.name()).is_some() || WITHOUT_EXAMPLE.contains(&row.name()),
            "{} has no example",
            row.name()
        );
    }
}
