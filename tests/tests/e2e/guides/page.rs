//! Reads a page: its blocks of commands, and what the comments before them say.
//!
//! Knows neither processes nor folders.

/// The comment that speaks to the test.
const MARK: &str = "<!-- test: ";
const MARK_END: &str = "-->";
const FENCE: &str = "```";
/// The language of a fence with the output of the commands before it.
const OUTPUT: &str = "output";
/// Shortest reason for a block that is not run, in bytes.
const REASON_LEN_MIN: usize = 10;

/// The way in which a block is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Run once. The output matches `prints`, if that is given.
    Run { prints: Option<String> },
    /// Run again and again until the output matches.
    Repeat { until: String },
    /// Started, and left running. The next block begins when the output matched.
    Server { until: String },
    /// Left out.
    NotRun { reason: String },
}

/// A block of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandBlock {
    /// The line of its fence; the first line of the page is 1.
    pub(crate) line: usize,
    /// The commands.
    pub(crate) text: String,
    pub(crate) step: Step,
    /// The output that the page shows below it.
    pub(crate) shown: Option<String>,
}

/// A page with commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Path from the repository's root.
    pub(crate) path: String,
    /// Programs without which the page is skipped.
    pub(crate) needs: Vec<String>,
    pub(crate) blocks: Vec<CommandBlock>,
}

impl Page {
    /// Reads the page `text`.
    ///
    /// # Errors
    /// The place and the reason, if a comment is not understood or belongs to no block.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, String> {
        let mut page = Self {
            path: path.to_owned(),
            needs: Vec::new(),
            blocks: Vec::new(),
        };
        let mut step: Option<(usize, Step)> = None;
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let at = |reason: &str| format!("{path}:{}: {reason}", index + 1);
            if let Some(mark) = line.strip_prefix(MARK) {
                let mark = mark.strip_suffix(MARK_END).map(str::trim);
                let mark = mark.ok_or_else(|| at("the comment does not end on its line"))?;
                if let Some(program) = mark.strip_prefix("needs ") {
                    page.needs.push(program.to_owned());
                } else if step.is_some() {
                    return Err(at("a block has one comment"));
                } else {
                    step = Some((index, read_step(mark).map_err(|reason| at(&reason))?));
                }
            } else if let Some(language) = line.strip_prefix(FENCE) {
                let mut commands = String::new();
                let body = lines.by_ref().take_while(|(_, line)| !line.starts_with(FENCE));
                for (_, line) in body {
                    commands.push_str(line);
                    commands.push('\n');
                }
                if language == OUTPUT {
                    let block = page.blocks.last_mut().filter(|block| block.shown.is_none());
                    let block = block.ok_or_else(|| at("output belongs to a block of commands before it"))?;
                    block.shown = Some(commands);
                    continue;
                }
                if language != "sh" {
                    continue;
                }
                let step = step.take().map(|(_, step)| step);
                page.blocks.push(CommandBlock {
                    line: index + 1,
                    text: commands,
                    step: step.unwrap_or(Step::Run { prints: None }),
                    shown: None,
                });
            } else if let Some((marked, _)) = &step {
                return Err(format!("{path}:{}: no block follows the comment", marked + 1));
            }
        }
        match step {
            Some((marked, _)) => Err(format!("{path}:{}: no block follows the comment", marked + 1)),
            None => Ok(page),
        }
    }
}

fn read_step(mark: &str) -> Result<Step, String> {
    let after = |prefix: &str| mark.strip_prefix(prefix).map(str::to_owned);
    if let Some(reason) = after("not run: ") {
        if reason.len() < REASON_LEN_MIN {
            return Err(format!("got the reason {reason:?}, expected one that explains"));
        }
        return Ok(Step::NotRun { reason });
    }
    let step = after("prints ")
        .map(|text| Step::Run { prints: Some(text) })
        .or_else(|| after("repeat until ").map(|until| Step::Repeat { until }))
        .or_else(|| after("server until ").map(|until| Step::Server { until }));
    step.ok_or_else(|| format!("got {mark:?}, expected prints, repeat until, server until, not run or needs"))
}

#[test]
fn pages_are_read() {
    let page = "# A\n\n<!-- test: needs tool -->\n```sh\none\ntwo\n```\n\n```toml\nx = 1\n```\n\
                <!-- test: prints a [0-9] -->\n```sh\nthree\n```\n\n```output\na 1\n```\n";
    let block = |line, text: &str, prints: Option<&str>, shown: Option<&str>| CommandBlock {
        line,
        text: text.to_owned(),
        step: Step::Run {
            prints: prints.map(str::to_owned),
        },
        shown: shown.map(str::to_owned),
    };
    let expected = Page {
        path: "p".to_owned(),
        needs: vec!["tool".to_owned()],
        blocks: vec![
            block(4, "one\ntwo\n", None, None),
            block(13, "three\n", Some("a [0-9]"), Some("a 1\n")),
        ],
    };
    assert_eq!(Page::parse("p", page), Ok(expected));
    for (bad, reason) in [
        ("<!-- test: prints x -->\ntext\n```sh\n```\n", "no block follows"),
        ("<!-- test: prints x -->\n", "no block follows"),
        ("<!-- test: prints x\n```sh\n```\n", "does not end"),
        ("<!-- test: print x -->\n```sh\n```\n", "expected prints"),
        ("```output\n```\n", "belongs to a block"),
        ("<!-- test: not run: no -->\n```sh\n```\n", "one that explains"),
    ] {
        let error = Page::parse("p", bad).expect_err(bad);
        assert!(error.starts_with("p:1: ") && error.contains(reason), "{error}");
    }
}
