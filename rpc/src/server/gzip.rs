//! Answers in compressed form, for clients that take it and where it is worth it.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Shorter answers fit a packet as they are.
const LEN_MIN: usize = 1400;
/// Longer answers are compressed off the network threads.
const INLINE_LEN_MAX: usize = 16 * 1024;

/// Whether an `Accept-Encoding` header allows gzip.
pub(super) fn is_accepted(header: &str) -> bool {
    header.split(',').any(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        is_gzip && weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|weight| weight > 0.0))
    })
}

/// `answer`, compressed where that is worth it, and whether it is.
pub(super) async fn compress(answer: Vec<u8>) -> (Vec<u8>, bool) {
    match answer.len() {
        ..LEN_MIN => (answer, false),
        LEN_MIN..INLINE_LEN_MAX => compressed(answer),
        INLINE_LEN_MAX.. => {
            let task = tokio::task::spawn_blocking(move || compressed(answer));
            // It can fail only with the runtime, and then nobody reads the answer.
            task.await.unwrap_or_default()
        }
    }
}

fn compressed(answer: Vec<u8>) -> (Vec<u8>, bool) {
    let mut encoder = GzEncoder::new(Vec::with_capacity(answer.len() / 4), Compression::fast());
    match encoder.write_all(&answer).and_then(|()| encoder.finish()) {
        Ok(zipped) => (zipped, true),
        // Writing to memory does not fail; if it did, the plain answer is as good.
        Err(_) => (answer, false),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn headers() {
        for header in ["gzip", "deflate, gzip;q=0.5", "GZIP", "br;q=1.0, gzip ; q=1"] {
            assert!(is_accepted(header), "{header}");
        }
        for header in [
            "",
            "br",
            "gzip;q=0",
            "identity, gzip;q=0.0",
            "gzipped",
            "gzip;q=x",
        ] {
            assert!(!is_accepted(header), "{header}");
        }
    }

    #[tokio::test]
    async fn what_is_compressed_comes_back() {
        for len in [0, LEN_MIN - 1, LEN_MIN, INLINE_LEN_MAX, 1_000_000] {
            let answer: Vec<u8> = (0..len).map(|index| b'0' + (index % 10) as u8).collect();
            let (body, zipped) = compress(answer.clone()).await;
            assert_eq!(zipped, len >= LEN_MIN, "{len}");
            if zipped {
                assert!(body.len() < len / 2, "{len} became {}", body.len());
                let mut back = Vec::new();
                flate2::read::GzDecoder::new(body.as_slice())
                    .read_to_end(&mut back)
                    .expect("gzip");
                assert_eq!(back, answer);
            } else {
                assert_eq!(body, answer);
            }
        }
    }
}
