//! Arguments and results of contracts, as far as the contracts of a MicroChain need them.
//!
//! Knows the ABI's words, arrays and texts. Knows no contract. A result of others is read strictly:
//! no length in it is believed before the bytes are there.

use primitives::{Address, B256, Bytes, U256};

/// Bytes of a word.
const WORD: usize = 32;

/// The arguments of a call, written one by one.
#[derive(Clone, Debug, Default)]
pub struct CallData {
    heads: Vec<Head>,
}

#[derive(Clone, Debug)]
enum Head {
    Word([u8; WORD]),
    /// An array or bytes: its encoding with the length.
    Tail(Vec<u8>),
}

impl CallData {
    /// Adds a number.
    #[must_use]
    pub fn number(self, number: U256) -> Self {
        self.word(B256::from(number))
    }

    /// Adds a number of 64 bits.
    #[must_use]
    pub fn small(self, number: u64) -> Self {
        self.number(U256::from(number))
    }

    /// Adds an address.
    #[must_use]
    pub fn address(self, address: Address) -> Self {
        self.word(address.into_word())
    }

    /// Adds a word.
    #[must_use]
    pub fn word(mut self, word: B256) -> Self {
        self.heads.push(Head::Word(word.0));
        self
    }

    /// Adds an array of words.
    #[must_use]
    pub fn words(mut self, words: impl IntoIterator<Item = B256>) -> Self {
        let (mut body, mut count) = (vec![0; WORD], 0u64);
        for word in words {
            body.extend(word);
            count += 1;
        }
        body[..WORD].copy_from_slice(&U256::from(count).to_be_bytes::<WORD>());
        self.heads.push(Head::Tail(body));
        self
    }

    /// Adds an array of numbers.
    #[must_use]
    pub fn numbers(self, numbers: impl IntoIterator<Item = U256>) -> Self {
        self.words(numbers.into_iter().map(B256::from))
    }

    /// Adds an array of addresses.
    #[must_use]
    pub fn addresses(self, addresses: impl IntoIterator<Item = Address>) -> Self {
        self.words(addresses.into_iter().map(|address| address.into_word()))
    }

    /// Adds bytes or a text.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let mut body = U256::from(bytes.len()).to_be_bytes::<WORD>().to_vec();
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(WORD), 0);
        self.heads.push(Head::Tail(body));
        self
    }

    /// The calldata: a selector and the arguments.
    pub fn after(self, selector: [u8; 4]) -> Bytes {
        let mut out = selector.to_vec();
        out.extend(self.encode());
        out.into()
    }

    /// The arguments alone.
    pub fn encode(self) -> Vec<u8> {
        let (mut heads, mut tails) = (Vec::new(), Vec::new());
        let heads_len = self.heads.len() * WORD;
        for head in self.heads {
            match head {
                Head::Word(word) => heads.extend(word),
                Head::Tail(body) => {
                    let offset = U256::from(heads_len + tails.len());
                    heads.extend(offset.to_be_bytes::<WORD>());
                    tails.extend(body);
                }
            }
        }
        heads.extend(tails);
        heads
    }
}

/// The reason why a result cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AbiError {
    /// The result ends too early.
    #[error("ABI: got {got} bytes, expected at least {expected}")]
    Short {
        /// Bytes of the result.
        got: usize,
        /// Bytes that the value needs.
        expected: usize,
    },
    /// A number is too large for what it says.
    #[error("ABI: got the number {got}, expected at most {max}")]
    Number {
        /// The number.
        got: U256,
        /// The largest that makes sense.
        max: u64,
    },
    /// An address has bytes before it.
    #[error("ABI: got the word {0}, expected an address")]
    Address(B256),
}

/// Reads a result, or a tuple in it. Offsets count from its beginning.
#[derive(Clone, Copy, Debug)]
pub struct ResultReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ResultReader<'a> {
    /// Reads this result from its first value on.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn slice(&self, from: usize, len: usize) -> Result<&'a [u8], AbiError> {
        let end = from.saturating_add(len);
        self.bytes.get(from..end).ok_or(AbiError::Short {
            got: self.bytes.len(),
            expected: end,
        })
    }

    /// The next word.
    ///
    /// # Errors
    /// [`AbiError`] if there is none.
    pub fn word(&mut self) -> Result<B256, AbiError> {
        let word = self.slice(self.at, WORD)?;
        self.at += WORD;
        Ok(B256::from_slice(word))
    }

    /// The next word as a number.
    ///
    /// # Errors
    /// [`AbiError`] if there is none.
    pub fn number(&mut self) -> Result<U256, AbiError> {
        Ok(U256::from_be_bytes(self.word()?.0))
    }

    /// The next word as a number that fits in 64 bits.
    ///
    /// # Errors
    /// [`AbiError`] if there is none, or if it is larger.
    pub fn small(&mut self) -> Result<u64, AbiError> {
        let got = self.number()?;
        u64::try_from(got).map_err(|_| AbiError::Number { got, max: u64::MAX })
    }

    /// The next word as a number of 64 bits, or the largest of these if it is larger.
    ///
    /// # Errors
    /// [`AbiError`] at the end.
    pub fn saturated(&mut self) -> Result<u64, AbiError> {
        Ok(u64::try_from(self.number()?).unwrap_or(u64::MAX))
    }

    /// The next word as an address.
    ///
    /// # Errors
    /// [`AbiError`] if it is none.
    pub fn address(&mut self) -> Result<Address, AbiError> {
        to_address(self.word()?)
    }

    /// The next value, which has an offset: a reader of what lies there.
    ///
    /// # Errors
    /// [`AbiError`] if the offset points behind the end.
    pub fn tail(&mut self) -> Result<Self, AbiError> {
        let got = self.number()?;
        let max = self.bytes.len();
        let offset = usize::try_from(got).ok().filter(|offset| *offset <= max);
        let offset = offset.ok_or(AbiError::Number { got, max: max as u64 })?;
        Ok(Self::new(&self.bytes[offset..]))
    }

    /// A reader of what follows, whose offsets count from here: the entries of an array of tuples.
    #[must_use]
    pub fn rest(&self) -> Self {
        Self::new(self.bytes.get(self.at..).unwrap_or_default())
    }

    /// The length at this place, if as many words can follow it.
    ///
    /// # Errors
    /// [`AbiError`] if there are fewer.
    pub fn count(&mut self) -> Result<usize, AbiError> {
        let got = self.number()?;
        let max = self.bytes.len().saturating_sub(self.at) / WORD;
        let count = usize::try_from(got).ok().filter(|count| *count <= max);
        count.ok_or(AbiError::Number { got, max: max as u64 })
    }

    /// The next value: an array of words.
    ///
    /// # Errors
    /// [`AbiError`] if it is longer than the result.
    pub fn words(&mut self) -> Result<Vec<B256>, AbiError> {
        let mut tail = self.tail()?;
        let count = tail.count()?;
        (0..count).map(|_| tail.word()).collect()
    }

    /// The next value: an array of numbers.
    ///
    /// # Errors
    /// As [`Self::words`].
    pub fn numbers(&mut self) -> Result<Vec<U256>, AbiError> {
        let words = self.words()?;
        Ok(words
            .into_iter()
            .map(|word| U256::from_be_bytes(word.0))
            .collect())
    }

    /// The next value: an array of numbers that fit in 64 bits.
    ///
    /// # Errors
    /// As [`Self::words`], and if one is larger.
    pub fn smalls(&mut self) -> Result<Vec<u64>, AbiError> {
        let mut tail = self.tail()?;
        let count = tail.count()?;
        (0..count).map(|_| tail.small()).collect()
    }

    /// The next value: an array of numbers, each as [`Self::saturated`] reads it.
    ///
    /// # Errors
    /// As [`Self::words`].
    pub fn saturated_list(&mut self) -> Result<Vec<u64>, AbiError> {
        let mut tail = self.tail()?;
        let count = tail.count()?;
        (0..count).map(|_| tail.saturated()).collect()
    }

    /// The next value: an array of addresses.
    ///
    /// # Errors
    /// As [`Self::words`], and if one is no address.
    pub fn addresses(&mut self) -> Result<Vec<Address>, AbiError> {
        self.words()?.into_iter().map(to_address).collect()
    }

    /// The next value: bytes or a text.
    ///
    /// # Errors
    /// [`AbiError`] if it is longer than the result.
    pub fn bytes(&mut self) -> Result<Bytes, AbiError> {
        let mut tail = self.tail()?;
        let got = tail.number()?;
        let max = tail.bytes.len() - tail.at;
        let len = usize::try_from(got).ok().filter(|len| *len <= max);
        let len = len.ok_or(AbiError::Number { got, max: max as u64 })?;
        Ok(Bytes::copy_from_slice(tail.slice(tail.at, len)?))
    }
}

fn to_address(word: B256) -> Result<Address, AbiError> {
    if word[..12] != [0; 12] {
        return Err(AbiError::Address(word));
    }
    Ok(Address::from_word(word))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let (one, two) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let data = CallData::default()
            .small(7)
            .addresses([one, two])
            .address(two)
            .bytes(b"text of more than thirty-two bytes")
            .numbers([U256::from(5)])
            .encode();
        let mut reader = ResultReader::new(&data);
        assert_eq!(reader.small(), Ok(7));
        assert_eq!(reader.addresses(), Ok(vec![one, two]));
        assert_eq!(reader.address(), Ok(two));
        assert_eq!(
            &reader.bytes().unwrap()[..],
            b"text of more than thirty-two bytes"
        );
        assert_eq!(reader.smalls(), Ok(vec![5]));
    }

    proptest! {
        /// Results come from contracts that others wrote, through VNODEs that may lie.
        #[test]
        fn any_result_is_read_or_refused(
            words in vec(prop_oneof![0..300_u64, any::<u64>()], 0..40),
            rest in vec(any::<u8>(), 0..31),
        ) {
            let mut bytes: Vec<u8> = words.iter().flat_map(|one| U256::from(*one).to_be_bytes::<32>()).collect();
            bytes.extend(rest);
            let mut reader = ResultReader::new(&bytes);
            for _ in 0..bytes.len() / WORD {
                let at = || reader;
                let lengths = [
                    at().words().map_or(0, |all| all.len()),
                    at().addresses().map_or(0, |all| all.len()),
                    at().smalls().map_or(0, |all| all.len()),
                    at().count().unwrap_or(0),
                ];
                prop_assert!(lengths.iter().all(|len| len * WORD <= bytes.len()));
                let _ = (at().bytes(), at().tail());
                prop_assert!(reader.word().is_ok());
            }
        }
    }

    #[test]
    fn wrong_bytes_are_errors() {
        let huge = [[0xff; 32], [0xff; 32]].concat();
        assert!(ResultReader::new(&huge).words().is_err());
        assert!(ResultReader::new(&huge).bytes().is_err());
        assert!(ResultReader::new(&huge).small().is_err());
        assert!(ResultReader::new(&huge).address().is_err());
        assert!(ResultReader::new(&[]).word().is_err());
        // The offset points to a length that has too few words behind it.
        let mut long = U256::from(32).to_be_bytes::<32>().to_vec();
        long.extend(U256::from(2).to_be_bytes::<32>());
        long.extend([0; 32]);
        assert!(ResultReader::new(&long).words().is_err());
        assert!(ResultReader::new(&long).tail().unwrap().word().is_ok());
    }
}
