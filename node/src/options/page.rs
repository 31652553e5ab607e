//! The tables of options in `docs/options.md`, made from the definitions of the options.
//!
//! `UPDATE_OPTIONS=1` in the environment lets the test write the page.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction};

use super::help::{HEADINGS, vnode_command};

/// The lines of the page before and after the tables.
const MARKS: [&str; 2] = [
    "<!-- The tables are made from the definitions of the options: CONTRIBUTING.md, \"Add an option\". -->\n",
    "<!-- The end of the tables. -->\n",
];

/// Notes that no single option has, below the heading of a section.
const NOTES: [(&str, &str); 10] = [
    (
        "Network and data",
        "`classic` and `mordor` are experimental: see [Ethereum Classic](guides/ethereum-classic.md). A request for a state \
         that is no longer kept is an error. A peer whose heavier branch is refused by `--maxreorg` is left alone for a \
         while; to follow such a branch, start once with a higher number. See also [Networks, import, \
         export](networks.md).",
    ),
    (
        "Mining",
        "The programs that mine elsewhere are in [The standalone miner](miner.md).",
    ),
    ("Transaction pool", "See [Local accounts](#local-accounts) below."),
    ("Access to JSON-RPC", "See [Guarded servers](guarded-servers.md)."),
    (
        "Limits of JSON-RPC",
        "See [What clients share](#what-clients-share) below, and for `--rpc.sendwait` [Several \
         nodes](guides/several-nodes.md). If that time is over, the transaction stays in the pool.",
    ),
    (
        "Stratum",
        "An address is one address of IPv4, or a network of 64 bits of IPv6. It is also banned after 20 wrong passwords. \
         See also [The node as a pool](stratum.md).",
    ),
    (
        "Metrics, dashboard",
        "Both, and the statistics of Stratum, are served under the host names of `--rpcvhosts`. See also [The \
         dashboard](dashboard.md).",
    ),
    ("Service for SCS servers", "See [Application chains](scs.md)."),
    ("Peers", "See [Joining a network](guides/join-network.md)."),
    (
        "Log",
        "If the collector of `--otlp` is away, spans are lost, and the node goes on. `OTEL_TRACES_SAMPLER=traceidratio` \
         and `OTEL_TRACES_SAMPLER_ARG=0.01` in the environment choose one request of a hundred.",
    ),
];

/// The option as it is written on the command line, with the form of its value.
fn spelling(option: &Arg) -> String {
    let mut text = format!("--{}", option.get_long().unwrap_or_default());
    if !matches!(option.get_action(), ArgAction::SetTrue) {
        let values = option.get_possible_values();
        let choices: Vec<_> = values.iter().map(|value| value.get_name()).collect();
        let names = option.get_value_names().unwrap_or_default();
        let value = match choices.is_empty() {
            true => names.first().map_or("VALUE", |name| name.as_str()).to_owned(),
            false => choices.join("|"),
        };
        let is_optional = option.get_num_args().is_some_and(|range| range.min_values() == 0);
        text += &match is_optional {
            true => format!("[={value}]"),
            false => format!(" {value}"),
        };
    }
    text.replace('|', "\\|")
}

/// The text of an option and its default. A default that is no value stands in the text, in square
/// brackets.
fn meaning_and_default(option: &Arg) -> (String, String) {
    let help = option.get_long_help().or_else(|| option.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut default = option
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect::<Vec<_>>()
        .join(",");
    if matches!(option.get_action(), ArgAction::SetTrue) {
        "off".clone_into(&mut default);
    } else if !default.is_empty() {
        default = format!("`{default}`");
    }
    if let Some((before, rest)) = help.split_once("[default: ")
        && let Some((told, after)) = rest.split_once(']')
    {
        default = marked(told);
        help = format!("{} {}", before.trim_end(), after.trim_start())
            .trim_end()
            .to_owned();
    }
    let mut meaning = marked(&help);
    if let Some(name) = option.get_env() {
        let _ = write!(meaning, ". In the environment: `{}`", name.to_string_lossy());
    }
    for name in option.get_visible_aliases().unwrap_or_default() {
        let _ = write!(meaning, ". Also `--{name}`");
    }
    (meaning, default)
}

/// The text with names of options as code, and no marks that Markdown would read.
fn marked(text: &str) -> String {
    let word = |word: &str| {
        let (before, rest) = word.split_at(word.len() - word.trim_start_matches('(').len());
        let name = rest.trim_end_matches([',', ';', ':', '.', ')']);
        match name.strip_prefix("--").filter(|name| !name.is_empty()) {
            Some(_) => format!("{before}`{name}`{}", &rest[name.len()..]),
            None => word.replace('*', "\\*").replace('|', "\\|"),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The tables of all options, in the order of their definitions.
fn tables() -> String {
    let mut text = String::new();
    let mut section = "";
    let command = vnode_command();
    for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
        let heading = option.get_help_heading().expect("each option has a heading");
        if heading != section {
            section = heading;
            let _ = write!(text, "\n## {heading}\n\n");
            if let Some((_, note)) = NOTES.iter().find(|(name, _)| *name == heading) {
                let _ = write!(text, "{note}\n\n");
            }
            text += "| option | default | meaning |\n|---|---|---|\n";
        }
        let (meaning, default) = meaning_and_default(option);
        let _ = writeln!(text, "| `{}` | {default} | {meaning} |", spelling(option));
    }
    let noted = NOTES.iter().map(|(name, _)| name);
    for name in noted.chain(HEADINGS.iter().map(|(_, name)| name)) {
        assert!(text.contains(&format!("\n## {name}\n")), "no section {name}");
    }
    text + "\n"
}

#[test]
fn the_page_of_options_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/options.md");
    let page = std::fs::read_to_string(&path).expect("the page of options");
    let (before, rest) = page.split_once(MARKS[0]).expect("the mark before the tables");
    let (_, after) = rest.split_once(MARKS[1]).expect("the mark after the tables");
    let expected = [before, MARKS[0], &tables(), MARKS[1], after].concat();
    if std::env::var_os("UPDATE_OPTIONS").is_some() {
        std::fs::write(&path, expected).expect("the page is written");
    } else if page != expected {
        let new = expected
            .lines()
            .find(|line| !page.contains(line))
            .unwrap_or_default();
        panic!("docs/options.md is out of date: run with UPDATE_OPTIONS=1. The first new line:\n{new}");
    }
}

#[test]
fn texts_keep_their_meaning_in_markdown() {
    let check = |text: &str, expected: &str| assert_eq!(marked(text), expected);
    check("with --dev, or (--mine): all", "with `--dev`, or (`--mine`): all");
    check("* allows a|b -- `x`", "\\* allows a\\|b -- `x`");
}
