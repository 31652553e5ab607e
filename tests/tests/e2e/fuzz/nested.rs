//! Every parser of the fuzz targets reads nested input on a thread with little stack. An overflow
//! would end the test's process.

use super::targets;

/// An eighth of the stack that a node gives its threads.
const SMALL_STACK_LEN: usize = 256 * 1024;
/// Levels of the nested inputs. 64 is the most that a request may have, 127 the most that
/// `serde_json` follows, and the last ones overflow the stack of a parser that follows them.
const DEPTHS: [usize; 5] = [60, 64, 100, 127, 50_000];

fn json() -> Vec<Vec<u8>> {
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", r#"{"topics":"#.repeat(depth), "}".repeat(depth));
    let mut all = Vec::new();
    for depth in DEPTHS {
        for nested in [lists(depth), objects(depth)] {
            all.extend([
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"mc_getLogs","params":[{nested}]}}"#),
                format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"mc_getLogs","params":[{{"topics":{nested}}}]}}"#
                ),
                format!(r#"{{"jsonrpc":"2.0","id":{nested},"method":"mc_getLogs","unknown":{nested}}}"#),
                format!(r#"{{"config":{nested}}}"#),
                format!(r#"{{"config":{{"chainId":7,"unknown":{nested}}},"unknown":{nested}}}"#),
                format!(
                    r#"{{"config":{{}},"alloc":{{"70997970c51812dc3a010c7d01b50e0d17dc79c8":{nested}}}}}"#
                ),
                format!(r#"{{"config":{{}},"alloc":{nested}}}"#),
                nested,
            ]);
        }
    }
    all.into_iter().map(String::into_bytes).collect()
}

/// The list with this content.
fn rlp_list(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_rlp_header(content.len(), &mut out);
    out.extend_from_slice(content);
    out
}

fn push_rlp_header(len: usize, out: &mut Vec<u8>) {
    if len <= 55 {
        out.push(0xc0 + len as u8);
        return;
    }
    let digits = len.to_be_bytes();
    let digits = &digits[len.leading_zeros() as usize / 8..];
    out.push(0xf7 + digits.len() as u8);
    out.extend_from_slice(digits);
}

/// A list in a list and so on, alone and as each field of a longer list.
fn rlp() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for depth in DEPTHS {
        let depth = depth.min(5000);
        let nested = (0..depth).fold(vec![0xc0], |inner, _| rlp_list(&inner));
        all.extend((1..20).map(|fields| rlp_list(&nested.repeat(fields))));
        // Empty fields before the nested one.
        all.extend((1..20).map(|fields| rlp_list(&[vec![0x80; fields], nested.clone()].concat())));
        all.push(nested);
    }
    all
}

/// Groups of an unknown field within each other: its tag is 100, its wire types are 3 and 4.
fn protobuf() -> Vec<Vec<u8>> {
    let groups = |depth: usize| [[0xa3, 0x06].repeat(depth), [0xa4, 0x06].repeat(depth)].concat();
    DEPTHS.map(groups).to_vec()
}

#[test]
fn nested_input_needs_little_stack() {
    let read_all = || {
        for bytes in json() {
            targets::request(&bytes);
            targets::genesis(&bytes);
            targets::authorization(&bytes);
            if bytes.len() < 100_000 {
                targets::ipc_stream(&bytes);
            }
        }
        for bytes in rlp() {
            targets::rlp(&bytes);
            targets::transaction(&bytes);
            targets::hello(&bytes);
            targets::node_record(&bytes);
            targets::discovery(&bytes);
            // The first byte chooses the protocol, the second one the message.
            for choice in 0..9 * 32 {
                targets::peer_message(&[&[(choice / 32) as u8, (choice % 32) as u8], &bytes[..]].concat());
            }
        }
        for bytes in protobuf() {
            targets::push_message(&bytes);
        }
    };
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK_LEN);
    let ended = thread.spawn(read_all).expect("a thread").join();
    assert!(ended.is_ok(), "a parser panicked");
}
