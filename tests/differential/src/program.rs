//! Programs in parts, so that jumps stay right when parts are removed.

use std::fmt::Write;

use crate::opcodes;

/// A part of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// One byte: an instruction without immediate bytes, or no instruction at all.
    Op(u8),
    /// PUSH1 to PUSH32 of these bytes.
    Push(Vec<u8>),
    /// PUSH2 of the position of a label or of an inner program.
    PushPosition(usize),
    /// PUSH2 of the length of an inner program.
    PushLength(usize),
    /// JUMPDEST.
    Label(usize),
    /// Code that is only data to this program. Its labels are its own.
    Inner(usize, Program),
    /// Bytes that are no instructions.
    Raw(Vec<u8>),
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program(pub Vec<Part>);

const PUSH1: u8 = 0x60;
const PUSH2: u8 = 0x61;
const JUMPDEST: u8 = 0x5b;

impl Part {
    fn length(&self) -> usize {
        match self {
            Self::Op(_) | Self::Label(_) => 1,
            Self::Push(bytes) => 1 + bytes.len(),
            Self::PushPosition(_) | Self::PushLength(_) => 3,
            Self::Inner(_, program) => program.length(),
            Self::Raw(bytes) => bytes.len(),
        }
    }
}

impl Program {
    fn length(&self) -> usize {
        self.0.iter().map(Part::length).sum()
    }

    /// The bytes. A label that does not exist is at position 0.
    pub fn assemble(&self) -> Vec<u8> {
        let mut code = Vec::with_capacity(self.length());
        for part in &self.0 {
            match part {
                Part::Op(byte) => code.push(*byte),
                Part::Push(bytes) => {
                    code.push(PUSH1 + bytes.len() as u8 - 1);
                    code.extend(bytes);
                }
                Part::PushPosition(label) => push2(&mut code, self.place(*label).0),
                Part::PushLength(label) => push2(&mut code, self.place(*label).1),
                Part::Label(_) => code.push(JUMPDEST),
                Part::Inner(_, program) => code.extend(program.assemble()),
                Part::Raw(bytes) => code.extend(bytes),
            }
        }
        code
    }

    /// Position and length of what the label names.
    fn place(&self, label: usize) -> (usize, usize) {
        let mut position = 0;
        for part in &self.0 {
            match part {
                Part::Label(found) | Part::Inner(found, _) if *found == label => {
                    return (position, part.length());
                }
                other => position += other.length(),
            }
        }
        (0, 0)
    }

    /// The program as text, one part a line, with positions.
    pub fn listing(&self) -> String {
        let mut text = String::new();
        self.list(0, "", &mut text);
        text
    }

    fn list(&self, start: usize, indent: &str, text: &mut String) {
        let mut position = start;
        for part in &self.0 {
            let line = match part {
                Part::Op(byte) => opcodes::name(*byte),
                Part::Push(bytes) => format!("PUSH{} 0x{}", bytes.len(), primitives::hex::encode(bytes)),
                Part::PushPosition(label) => format!("PUSH2 {} (position {label})", self.place(*label).0),
                Part::PushLength(label) => format!("PUSH2 {} (length {label})", self.place(*label).1),
                Part::Label(label) => format!("JUMPDEST ({label})"),
                Part::Inner(label, program) => format!("inner program {label}, {} bytes", program.length()),
                Part::Raw(bytes) => format!("bytes 0x{}", primitives::hex::encode(bytes)),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{indent}{position:5} {line}");
            if let Part::Inner(_, program) = part {
                program.list(0, &format!("{indent}  "), text);
            }
            position += part.length();
        }
    }
}

fn push2(code: &mut Vec<u8>, value: usize) {
    code.push(PUSH2);
    code.extend((value as u16).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_lengths_follow_the_parts() {
        let inner = Program(vec![Part::Label(0), Part::PushPosition(0)]);
        let mut program = Program(vec![
            Part::Push(vec![1, 2, 3]),
            Part::PushPosition(7),
            Part::PushLength(8),
            Part::Op(0x56),
            Part::Label(7),
            Part::Inner(8, inner),
            Part::Raw(vec![0xfe]),
        ]);
        let code = primitives::hex::encode(program.assemble());
        assert_eq!(code, "62010203 61000b 610004 56 5b 5b610000 fe".replace(' ', ""));
        assert!(program.listing().contains("PUSH2 11 (position 7)"));
        program.0.remove(0);
        assert_eq!(primitives::hex::encode(&program.assemble()[..6]), "610007610004");
        program.0.truncate(2);
        assert_eq!(primitives::hex::encode(program.assemble()), "610000610000");
    }
}
