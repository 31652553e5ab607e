//! The option for notices of work: `--miner.notify`.

use std::str::FromStr;

use hyper::Uri;

use super::values::OptionValueError;

/// The word after the URLs that asks for headers.
const FULL: &str = "full";

/// Servers that are told of new work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkNotify {
    /// The URLs that each notice is posted to.
    pub urls: Vec<Uri>,
    /// Whether a notice is the whole header that is to be sealed.
    pub full: bool,
}

impl FromStr for WorkNotify {
    type Err = OptionValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || {
            OptionValueError::Form(
                "URLs that begin with http:// or https://, separated by commas, and perhaps full at the end",
            )
        };
        let (list, full) = match text.rsplit_once(',') {
            Some((list, FULL)) => (list, true),
            _ => (text, false),
        };
        let url = |text: &str| {
            let url: Uri = text.trim().parse().ok()?;
            let is_http = matches!(url.scheme_str(), Some("http" | "https"));
            (is_http && url.host().is_some()).then_some(url)
        };
        let urls: Option<Vec<Uri>> = list.split(',').map(url).collect();
        Ok(Self {
            urls: urls.ok_or_else(form)?,
            full,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_urls() {
        let urls = |text: &str| {
            let notify: WorkNotify = text.parse().ok()?;
            Some((
                notify
                    .urls
                    .iter()
                    .map(Uri::to_string)
                    .collect::<Vec<_>>()
                    .join(" "),
                notify.full,
            ))
        };
        let check = |text, expected: (&str, bool)| {
            assert_eq!(urls(text), Some((expected.0.to_owned(), expected.1)), "{text}");
        };
        check("http://127.0.0.1:80/work", ("http://127.0.0.1:80/work", false));
        check("http://a:1/,https://b/x,full", ("http://a:1/ https://b/x", true));
        for bad in [
            "",
            "full",
            "ftp://a",
            "http://a,",
            "http://a,full,http://b",
            "127.0.0.1:80",
        ] {
            assert_eq!(urls(bad), None, "{bad}");
        }
    }
}
