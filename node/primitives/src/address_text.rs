//! Addresses as people write them. An address in both cases has a checksum (EIP-55), and a wrong
//! one means a wrong letter: what is paid to it is lost.

use alloy_primitives::{Address, hex};

/// The reason why a text is not taken as an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressTextError {
    /// The text has another form.
    #[error("got {0:?}, expected an address (40 hexadecimal digits, with or without 0x)")]
    Form(String),
    /// The capital letters do not fit the address.
    #[error("the checksum of the address is wrong: got {got}, expected {expected}")]
    Checksum {
        /// The text.
        got: String,
        /// The address with its checksum.
        expected: String,
    },
}

/// Reads an address, with or without `0x`. One in both lower and upper case must have the capital
/// letters of its checksum; all lower and all upper case have none.
///
/// # Errors
/// [`AddressTextError`] if the text is no address or its checksum is wrong.
pub fn parse_address(text: &str) -> Result<Address, AddressTextError> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    let mut bytes = [0; 20];
    hex::decode_to_slice(digits, &mut bytes).map_err(|_| AddressTextError::Form(text.to_owned()))?;
    let address = Address::from(bytes);
    let has = |is: fn(&u8) -> bool| digits.as_bytes().iter().any(is);
    let is_mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    let expected = address.to_checksum(None);
    if is_mixed && expected[2..] != *digits {
        let got = text.to_owned();
        return Err(AddressTextError::Checksum { got, expected });
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

    #[test]
    fn capital_letters_must_be_those_of_the_checksum() {
        let address: Address = RIGHT.parse().expect("an address");
        for text in [
            RIGHT.to_owned(),
            RIGHT[2..].to_owned(),
            RIGHT.to_lowercase(),
            RIGHT[2..].to_uppercase(),
            RIGHT.to_uppercase(),
        ] {
            assert_eq!(parse_address(&text), Ok(address), "{text}");
        }
        let wrong = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Beaed";
        assert_eq!(
            parse_address(wrong).map_err(|error| error.to_string()),
            Err(format!(
                "the checksum of the address is wrong: got {wrong}, expected {RIGHT}"
            ))
        );
    }

    #[test]
    fn other_texts_are_no_addresses() {
        for text in [
            "",
            "0x",
            "0x12",
            &RIGHT[..41],
            "0xzaaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        ] {
            let error = parse_address(text).map_err(|error| error.to_string());
            let expected =
                format!("got {text:?}, expected an address (40 hexadecimal digits, with or without 0x)");
            assert_eq!(error, Err(expected));
        }
        let long = format!("{RIGHT}0");
        assert!(matches!(parse_address(&long), Err(AddressTextError::Form(_))));
    }
}
