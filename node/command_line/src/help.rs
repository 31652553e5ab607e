//! The help of a program: headings, a `-h` that fits a screen, and options that have no effect.
//!
//! Knows options by their names only; what they mean is in their definitions.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, Command, parser::ValueSource};

/// Columns of a screen on which `-h` fits.
const SCREEN_COLUMNS: usize = 80;

/// Gives each option its heading: that of the last entry of `headings` whose option stands before
/// it or is it. An entry has the long name of an option and a heading.
pub fn with_headings(command: Command, headings: &'static [(&'static str, &'static str)]) -> Command {
    let mut heading = None;
    command.mut_args(|option| {
        let begun = headings
            .iter()
            .find(|(first, _)| option.get_long() == Some(*first));
        if let Some((_, begun)) = begun {
            heading = Some(*begun);
        }
        match heading {
            Some(heading) if !option.is_positional() => option.help_heading(heading),
            _ => option,
        }
    })
}

/// Whether the arguments of a process ask for the help that fits a screen.
pub fn is_short_help(arguments: &[OsString]) -> bool {
    let rest = arguments.get(1..).unwrap_or_default();
    rest.iter().any(|argument| argument == "-h")
}

/// The command with the help of `-h`: it shows only the arguments of `shown`, each with the text
/// beside its id.
pub fn with_short_help(command: Command, shown: &'static [(&'static str, &'static str)]) -> Command {
    command.term_width(SCREEN_COLUMNS).mut_args(|option| {
        let id = option.get_id().as_str();
        let Some((_, text)) = shown.iter().find(|(name, _)| *name == id) else {
            return option.hide(true);
        };
        let takes_value = option.get_action().takes_values();
        let option = option.help(*text).visible_alias(None);
        let long = option
            .get_value_names()
            .is_some_and(|names| names == ["ADDRESS:PORT"]);
        let option = if long {
            option.value_name("ADDRESS")
        } else {
            option
        };
        option.hide_possible_values(takes_value)
    })
}

/// Options that need another one.
#[derive(Debug)]
pub struct NeededOption<T: 'static> {
    /// The ids of the options.
    pub ids: &'static [&'static str],
    /// Whether the other one is given.
    pub is_given: fn(&T) -> bool,
    /// The reason why the options have no effect otherwise, such as `without --stratum`.
    pub needs: &'static str,
}

/// The reason why the option `id` has no effect among `options`; `None` if it has one.
pub fn missing_need<T>(needed: &[NeededOption<T>], options: &T, id: &str) -> Option<&'static str> {
    let mut all = needed.iter().filter(|needed| needed.ids.contains(&id));
    all.find(|needed| !(needed.is_given)(options))
        .map(|needed| needed.needs)
}

/// The warning for an option that was given and has no effect.
pub fn no_effect(option: &Arg, reason: &str) -> Option<String> {
    Some(format!("--{} has no effect {reason}", option.get_long()?))
}

/// The warnings for the options of `command` that were typed and have no effect.
pub fn without_effect<T>(
    command: &Command,
    matches: &ArgMatches,
    needed: &[NeededOption<T>],
    options: &T,
) -> Vec<String> {
    let typed = command
        .get_arguments()
        .filter(|option| matches.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine));
    typed
        .filter_map(|option| no_effect(option, missing_need(needed, options, option.get_id().as_str())?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let option = |name: &'static str| Arg::new(name).long(name).help("a long text");
        Command::new("p").args([
            Arg::new("file"),
            option("a"),
            option("b").value_name("ADDRESS:PORT"),
            option("c"),
        ])
    }

    #[test]
    fn options_have_the_heading_before_them() {
        let command = with_headings(command(), &[("a", "One"), ("c", "Two")]);
        let headings: Vec<_> = command.get_arguments().map(Arg::get_help_heading).collect();
        assert_eq!(headings, [None, Some("One"), Some("One"), Some("Two")]);
    }

    #[test]
    fn the_short_help_has_what_is_listed() {
        let text = with_short_help(command(), &[("b", "short")])
            .render_help()
            .to_string();
        assert!(text.contains("--b <ADDRESS>  short\n"), "{text}");
        assert!(!text.contains("--a") && !text.contains("long text"), "{text}");
        let is_asked =
            |arguments: &[&str]| is_short_help(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(is_asked(&["p", "-h"]) && is_asked(&["p", "c", "-h"]));
        assert!(!is_asked(&["-h"]) && !is_asked(&["p", "--help"]));
    }

    #[test]
    fn options_without_effect_are_named() {
        let needed = [
            NeededOption {
                ids: &["a", "b"],
                is_given: |given: &[bool; 2]| given[0],
                needs: "without --c",
            },
            NeededOption {
                ids: &["a"],
                is_given: |given: &[bool; 2]| given[1],
                needs: "with --d",
            },
        ];
        let matches = command().get_matches_from(["p", "--a", "1", "--c", "2"]);
        let check = |given: [bool; 2], expected: &[&str]| {
            assert_eq!(without_effect(&command(), &matches, &needed, &given), expected);
        };
        check([false, false], &["--a has no effect without --c"]);
        check([true, false], &["--a has no effect with --d"]);
        check([true, true], &[]);
    }
}
