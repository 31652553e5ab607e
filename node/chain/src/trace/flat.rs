//! A tree of calls as a flat list, as Parity and the tools after it show traces.

use primitives::Address;

use super::CallFrame;

/// A call with its place in the tree of calls.
#[derive(Debug)]
pub struct FlatCall<'a> {
    /// The call. Its inner calls are in the list, too.
    pub frame: &'a CallFrame,
    /// The index of the call among its caller's, after those of the calls above it. Empty for the
    /// transaction's own call.
    pub address: Vec<usize>,
    /// How many calls it made.
    pub subtraces: usize,
}

impl<'a> FlatCall<'a> {
    /// The calls of a tree: each before the calls that it made. Calls of precompiled contracts are
    /// left out, unless they move value.
    pub fn list(top: &'a CallFrame) -> Vec<Self> {
        let mut open = vec![(top, Vec::new())];
        let mut list = Vec::new();
        while let Some((frame, address)) = open.pop() {
            let inner: Vec<_> = frame.calls.iter().filter(|call| is_shown(call)).collect();
            for (index, call) in inner.iter().enumerate().rev() {
                let mut place: Vec<usize> = Vec::with_capacity(address.len() + 1);
                place.extend(&address);
                place.push(index);
                open.push((call, place));
            }
            list.push(Self {
                frame,
                subtraces: inner.len(),
                address,
            });
        }
        list
    }

    /// Parity's word for the instruction of a call that creates and destroys nothing.
    pub fn call_type(&self) -> &'static str {
        match self.frame.kind {
            "STATICCALL" => "staticcall",
            "DELEGATECALL" => "delegatecall",
            "CALLCODE" => "callcode",
            _ => "call",
        }
    }

    /// The accounts that the call goes from and to.
    pub const fn ends(&self) -> (Address, Option<Address>) {
        (self.frame.from, self.frame.to)
    }
}

fn is_shown(call: &CallFrame) -> bool {
    !call.is_builtin || call.value.is_some_and(|value| !value.is_zero())
}

/// Parity's text for a failure. Failures for which it has no word keep ours.
pub fn error_word(own: &str) -> &str {
    match own {
        "evm: execution reverted" => "Reverted",
        "out of gas" => "Out of gas",
        "Invalid opcode" => "Bad instruction",
        "evm: InvalidJump" => "Bad jump destination",
        "evm: StackUnderflow" => "Stack underflow",
        "evm: StackOverflow" => "Out of stack",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use primitives::U256;

    use super::*;

    fn frame(kind: &'static str, calls: Vec<CallFrame>) -> CallFrame {
        CallFrame {
            kind,
            calls,
            ..CallFrame::default()
        }
    }

    #[test]
    fn trees_become_lists() {
        let mut builtin = frame("STATICCALL", Vec::new());
        builtin.is_builtin = true;
        let mut paid = builtin.clone();
        paid.value = Some(U256::from(1));
        let left = frame("CALL", vec![builtin, frame("CREATE", Vec::new()), paid]);
        let top = frame("CALL", vec![left, frame("SELFDESTRUCT", Vec::new())]);
        let list: Vec<_> = FlatCall::list(&top)
            .into_iter()
            .map(|call| (call.frame.kind, call.address, call.subtraces))
            .collect();
        let expected = [
            ("CALL", vec![], 2),
            ("CALL", vec![0], 2),
            ("CREATE", vec![0, 0], 0),
            ("STATICCALL", vec![0, 1], 0),
            ("SELFDESTRUCT", vec![1], 0),
        ];
        assert_eq!(list, expected);
    }
}
