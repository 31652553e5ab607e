//! Compares what a block of commands printed with what its page shows.
//!
//! Numbers, hashes and times differ from run to run, so each of them stands for any other of its
//! kind. `…` stands for any text of a line, and a line `...` for any number of lines.

/// A line that stands for any number of lines.
const ANY_LINES: &str = "...";
/// The text that stands for any text of a line.
const ANY_TEXT: char = '…';
/// The fewest digits of a hash without `0x`.
const HASH_LEN_MIN: usize = 8;

/// Compares the lines that a page shows with those that were printed.
///
/// # Errors
/// The first lines of the page that were not printed where they stand, and what was printed.
pub(crate) fn compare(shown: &str, printed: &str) -> Result<(), String> {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    let (shown, got) = (lines(shown), lines(printed));
    let parts: Vec<_> = shown.split(|line| line == ANY_LINES).collect();
    let last = parts.len() - 1;
    let mut rest = got.as_slice();
    for (index, part) in parts.into_iter().enumerate() {
        let fits = |place: usize| {
            let here = rest.get(place..place + part.len());
            here.is_some_and(|here| part.iter().zip(here).all(|(shown, got)| is_like(shown, got)))
        };
        let end = rest.len().checked_sub(part.len());
        let place = end.and_then(|end| match index {
            0 => (last > 0 || end == 0).then_some(0),
            index if index == last => Some(end),
            _ => (0..=end).find(|place| fits(*place)),
        });
        let Some(place) = place.filter(|place| fits(*place)) else {
            return Err(format!("shows\n{}\nprinted:\n{printed}", part.join("\n")));
        };
        rest = &rest[place + part.len()..];
    }
    Ok(())
}

/// Whether a printed line is what the page shows, but for what differs from run to run.
fn is_like(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (general(shown), general(printed));
    let mut parts = shown.split(ANY_TEXT);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let place = if is_last {
            rest.ends_with(part).then(|| rest.len() - part.len())
        } else {
            rest.find(part)
        };
        match place {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    true
}

/// The line with signs in place of numbers and hashes, and with single spaces.
fn general(line: &str) -> String {
    let mut text = String::new();
    let mut word = String::new();
    for letter in line
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .chain([' '])
    {
        if letter.is_ascii_alphanumeric() {
            word.push(letter);
            continue;
        }
        push_word(&mut text, &word);
        word.clear();
        text.push(letter);
    }
    // Parts of one number, of a time or of an address.
    for between in ["#.#", "#,#", "#:#"] {
        while text.contains(between) {
            text = text.replace(between, "#");
        }
    }
    text.trim_end().to_owned()
}

fn push_word(text: &mut String, word: &str) {
    let is_hex = |word: &str| word.chars().all(|letter| letter.is_ascii_hexdigit());
    let has_digit = word.chars().any(|letter| letter.is_ascii_digit());
    if word.strip_prefix("0x").is_some_and(is_hex) {
        text.push_str("0x#");
    } else if word.len() >= HASH_LEN_MIN && is_hex(word) && has_digit {
        text.push('#');
    } else {
        let mut in_number = false;
        for letter in word.chars() {
            if !letter.is_ascii_digit() {
                text.push(letter);
            } else if !in_number {
                text.push('#');
            }
            in_number = letter.is_ascii_digit();
        }
    }
}

#[test]
fn pages_show_what_is_printed() {
    let check = |shown: &str, printed: &str, fits: bool| {
        let compared = compare(shown, printed);
        assert_eq!(compared.is_ok(), fits, "{shown:?} {printed:?}: {compared:?}");
    };
    check("a 12 b\n", "a 7 b\n\n", true);
    check("a 12 b", "a x b", false);
    check("a", "a\nb", false);
    check("a\n...", "a\nb", true);
    check("...\nb", "a\nb", true);
    check("...\na", "b\nc", false);
    check("a\nb", "a", false);
    // The end of the page stands at the end, whatever is like it before.
    check("{\n...\n}", "{\n  {\n  }\n}", true);
    check("{\n...\n}", "{\n}\na", false);
    check("...\na\nb\n...", "a\nc\na\nb\nd", true);
    check("head 0x12ab in 1.5 s", "head 0xffff00 in 12,000.25   s", true);
    check("at 07:00:01", "at 17:12:59", true);
    check("hash 0xab", "hash ab", false);
    check("id 0011223344aabbcc", "id ffeeddccbbaa0099", true);
    check("id 0011223344aabbcc", "id somewhere", false);
    check(r#"{"a":"0x1",…}"#, r#"{"a":"0x2","b":1}"#, true);
    check(r#"{"a":"0x1",…}"#, r#"{"b":"0x2","b":1}"#, false);
    check("a…b…c", "a 1 b 2 c", true);
    check("a…b…c", "a 1 c", false);
    check("fee 0n", "fee 21n", true);
}
