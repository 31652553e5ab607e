//! A tree of calls as a flat list, as Parity and the tools after it show traces.

use std::slice;

use primitives::Address;

use super::CallFrame;

/// A call with its place in the tree of calls.
#[derive(Debug)]
pub struct FlatCall<'a> {
    /// The call. Its inner calls follow it.
    pub frame: &'a CallFrame,
    /// The index of the call among its caller's, after those of the calls above it. Empty for the
    /// transaction's own call.
    pub address: Vec<usize>,
    /// The number of calls that it made.
    pub subtraces: usize,
}

/// The calls of a tree, each before the calls that it made.
///
/// Places of deep calls are long, so only the place of one call is in memory.
#[derive(Clone, Debug)]
pub struct FlatCalls<'a> {
    /// The transaction's own call, until it was returned.
    top: Option<&'a CallFrame>,
    /// For each call above the next one: the calls that it made and that were not returned yet,
    /// and the index of the one that was returned last or is next.
    open: Vec<(slice::Iter<'a, CallFrame>, usize)>,
}

impl<'a> FlatCalls<'a> {
    /// The calls of the tree below `top`. Calls of precompiled contracts are left out, unless they
    /// move value.
    pub const fn of(top: &'a CallFrame) -> Self {
        Self {
            top: Some(top),
            open: Vec::new(),
        }
    }

    fn enter(&mut self, frame: &'a CallFrame, address: Vec<usize>) -> FlatCall<'a> {
        self.open.push((frame.calls.iter(), 0));
        FlatCall {
            frame,
            address,
            subtraces: frame.calls.iter().filter(|call| is_shown(call)).count(),
        }
    }
}

impl<'a> Iterator for FlatCalls<'a> {
    type Item = FlatCall<'a>;

    fn next(&mut self) -> Option<FlatCall<'a>> {
        if let Some(top) = self.top.take() {
            return Some(self.enter(top, Vec::new()));
        }
        loop {
            let (calls, _) = self.open.last_mut()?;
            let Some(call) = calls.find(|call| is_shown(call)) else {
                self.open.pop();
                if let Some((_, index)) = self.open.last_mut() {
                    *index += 1;
                }
                continue;
            };
            let address = self.open.iter().map(|(_, index)| *index).collect();
            return Some(self.enter(call, address));
        }
    }
}

impl FlatCall<'_> {
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
            calls: calls.into(),
            ..CallFrame::default()
        }
    }

    #[test]
    fn deep_trees_need_little_stack() {
        let list_and_drop = || {
            let top = (0..5000).fold(CallFrame::default(), |inner, _| frame("CALL", vec![inner]));
            assert_eq!(FlatCalls::of(&top).count(), 5001);
            let last = FlatCalls::of(&top).last().expect("calls");
            assert!(last.address.len() == 5000 && last.address.iter().all(|index| *index == 0));
        };
        let thread = std::thread::Builder::new().stack_size(256 * 1024);
        thread
            .spawn(list_and_drop)
            .expect("a thread")
            .join()
            .expect("no panic");
    }

    #[test]
    fn trees_become_lists() {
        let mut builtin = frame("STATICCALL", Vec::new());
        builtin.is_builtin = true;
        let mut paid = builtin.clone();
        paid.value = Some(U256::from(1));
        let left = frame("CALL", vec![builtin, frame("CREATE", Vec::new()), paid]);
        let top = frame("CALL", vec![left, frame("SELFDESTRUCT", Vec::new())]);
        let list: Vec<_> = FlatCalls::of(&top)
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
