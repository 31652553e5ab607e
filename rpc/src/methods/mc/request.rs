//! Parameters that are more than plain values: transaction objects, call objects, words.

use chain::call::CallRequest;
use primitives::{AccessListEntry, Address, Bytes, U256};

use crate::decode::{FromParam, ParamFields, WrittenAddress, string};
use crate::objects::ListedAccount;
use crate::types::{Count, Data, ParamError, Quantity};
use crate::wire_type::WireType;

/// Fields about costs that only later types of Ethereum's transactions have. Each field has the
/// first transaction type with this field.
///
/// A transaction object with such a field is refused, because a transaction without the field would
/// not be what the caller wants. A call object may have these fields: they do not change what a
/// call returns, and clients send them routinely.
const COST_FIELDS: [(&str, &str); 2] = [
    ("maxFeePerGas", "2 (EIP-1559)"),
    ("maxPriorityFeePerGas", "2 (EIP-1559)"),
];
/// Fields about content that only later types of Ethereum's transactions have. Call objects with
/// such a field are refused, too, because the field changes what the call returns.
const CONTENT_FIELDS: [(&str, &str); 4] = [
    ("maxFeePerBlobGas", "3 (EIP-4844)"),
    ("blobVersionedHashes", "3 (EIP-4844)"),
    ("blobs", "3 (EIP-4844)"),
    ("authorizationList", "4 (EIP-7702)"),
];

/// A number as QUANTITY or as DATA of 32 bytes, such as a storage position or a miner's hash rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::methods) struct Word(pub(in crate::methods) U256);

impl FromParam for Word {
    const TYPE: WireType = WireType::Named("WORD");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let text = string(json, "a hex string")?;
        match Data::<[u8; 32]>::decode_fixed(&text) {
            Ok(Data(bytes)) => Ok(Self(U256::from_be_bytes(bytes))),
            Err(_) => Quantity::<U256>::decode(&text).map(|number| Self(number.0)),
        }
    }
}

/// The transaction object of `mc_sendTransaction` (docs/interface.md, 4.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::methods) struct TransactionRequest {
    pub(super) from: Address,
    pub(super) to: Option<Address>,
    pub(super) gas: Option<u64>,
    pub(super) gas_price: Option<U256>,
    pub(super) value: U256,
    pub(super) input: Bytes,
    pub(super) tx_nonce: Option<u64>,
    pub(super) sharding_flag: u64,
    pub(super) via: Option<Address>,
    pub(super) chain_id: Option<u64>,
    /// The access list of a transaction of type 1; `None` if it has no type.
    pub(super) access_list: Option<Vec<AccessListEntry>>,
}

impl FromParam for TransactionRequest {
    const TYPE: WireType = WireType::Named("TransactionRequest");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json)?;
        refuse_typed(&fields, &COST_FIELDS)?;
        refuse_typed(&fields, &CONTENT_FIELDS)?;
        let listed = access_list(&fields)?;
        let access_list = match fields.get("type")? {
            None => listed,
            Some(Count(0)) if listed.is_none() => None,
            Some(Count(1)) => Some(listed.unwrap_or_default()),
            Some(Count(got)) => {
                let expected = if listed.is_some() {
                    "1 beside accessList"
                } else {
                    "0, 1 or none"
                };
                return Err(ParamError::Rule(format!(
                    "field type: got {got}, expected {expected}"
                )));
            }
        };
        let request = Self {
            from: fields.get::<WrittenAddress>("from")?.0,
            to: address(&fields, "to")?,
            gas: number(&fields, "gas")?,
            gas_price: wide(&fields, "gasPrice")?,
            value: wide(&fields, "value")?.unwrap_or_default(),
            input: input(&fields)?,
            tx_nonce: number(&fields, "nonce")?,
            sharding_flag: number(&fields, "shardingFlag")?.unwrap_or_default(),
            via: via(&fields)?,
            chain_id: chain_id(&fields)?,
            access_list,
        };
        if request.to.is_none() && request.input.is_empty() {
            return Err(ParamError::Rule(
                "expected a field to, or the code of a contract as data".to_owned(),
            ));
        }
        Ok(request)
    }
}

/// The call object of `mc_call` and `mc_estimateGas` (docs/interface.md, 4.5).
#[derive(Clone, Debug)]
pub(in crate::methods) struct CallObject {
    pub(super) request: CallRequest,
    pub(super) chain_id: Option<u64>,
}

impl FromParam for CallObject {
    const TYPE: WireType = WireType::Named("CallRequest");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json)?;
        refuse_typed(&fields, &CONTENT_FIELDS)?;
        let gas_price = wide(&fields, "gasPrice")?;
        let _type: Option<Count> = fields.get("type")?;
        for name in ["maxFeePerGas", "maxPriorityFeePerGas"] {
            if wide(&fields, name)?.is_some() && gas_price.is_some() {
                return Err(ParamError::Rule(format!(
                    "fields gasPrice and {name} exclude each other, expected one of them"
                )));
            }
        }
        Ok(Self {
            request: CallRequest {
                from: address(&fields, "from")?,
                to: address(&fields, "to")?,
                gas: number(&fields, "gas")?,
                gas_price: gas_price.unwrap_or_default(),
                value: wide(&fields, "value")?.unwrap_or_default(),
                input: input(&fields)?,
                access_list: access_list(&fields)?.unwrap_or_default(),
                ..CallRequest::default()
            },
            chain_id: chain_id(&fields)?,
        })
    }
}

/// Refuses an object with one of these fields.
fn refuse_typed(fields: &ParamFields<'_>, typed: &[(&str, &str)]) -> Result<(), ParamError> {
    let is_present = |(name, _): &&(&str, &str)| fields.json(name).is_some_and(|json| json != "null");
    match typed.iter().find(is_present) {
        None => Ok(()),
        Some((name, kind)) => Err(ParamError::Rule(format!(
            "field {name}: got one, expected none: this chain has no transactions of type {kind}"
        ))),
    }
}

/// The access list, if there is one.
fn access_list(fields: &ParamFields<'_>) -> Result<Option<Vec<AccessListEntry>>, ParamError> {
    let list: Option<Vec<ListedAccount>> = fields.get("accessList")?;
    Ok(list.map(|list| list.into_iter().map(|entry| entry.0).collect()))
}

/// The chain id, as QUANTITY or as a plain number, because people write it both ways.
fn chain_id(fields: &ParamFields<'_>) -> Result<Option<u64>, ParamError> {
    let id: Option<Count> = fields.get("chainId")?;
    Ok(id.map(|id| id.0))
}

fn number(fields: &ParamFields<'_>, name: &'static str) -> Result<Option<u64>, ParamError> {
    let number: Option<Quantity> = fields.get(name)?;
    Ok(number.map(|number| number.0))
}

/// An address whose capital letters are a checksum (EIP-55), if it has small ones, too.
fn address(fields: &ParamFields<'_>, name: &'static str) -> Result<Option<Address>, ParamError> {
    let written: Option<WrittenAddress> = fields.get(name)?;
    Ok(written.map(|written| written.0))
}

fn wide(fields: &ParamFields<'_>, name: &'static str) -> Result<Option<U256>, ParamError> {
    let number: Option<Quantity<U256>> = fields.get(name)?;
    Ok(number.map(|number| number.0))
}

/// The input, from the field `data` or the field `input`. If both are present, they must be equal.
fn input(fields: &ParamFields<'_>) -> Result<Bytes, ParamError> {
    let data: Option<Data> = fields.get("data")?;
    let input: Option<Data> = fields.get("input")?;
    if let (Some(data), Some(input)) = (&data, &input)
        && data != input
    {
        return Err(ParamError::Rule(
            "fields data and input differ, expected one of them".to_owned(),
        ));
    }
    Ok(data.or(input).unwrap_or_default().0.into())
}

/// The address of the proxy. Clients of the public network also write `0x` if there is no proxy.
fn via(fields: &ParamFields<'_>) -> Result<Option<Address>, ParamError> {
    match fields.json("via") {
        Some("\"0x\"" | "\"\"") => Ok(None),
        _ => address(fields, "via"),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    #[track_caller]
    fn check_error<T: FromParam + Debug>(json: &str, expected: &str) {
        assert_eq!(T::from_json(json).unwrap_err().to_string(), expected, "{json}");
    }

    #[test]
    fn words() {
        let full = format!("\"0x{}01\"", "00".repeat(31));
        for (json, value) in [("\"0x0\"", 0), ("\"0x1f\"", 31), (full.as_str(), 1)] {
            assert_eq!(Word::from_json(json), Ok(Word(U256::from(value))), "{json}");
        }
        let most = format!("\"0x{}\"", "f".repeat(64));
        assert_eq!(Word::from_json(&most), Ok(Word(U256::MAX)));
        check_error::<Word>("\"0x01\"", "leading zero digits");
        check_error::<Word>("\"0x\"", "expected at least one hex digit after 0x");
        check_error::<Word>("1", "got a number, expected a hex string");
        let long = format!("\"0x{}\"", "f".repeat(66));
        check_error::<Word>(&long, "number does not fit 256 bits");
    }

    #[test]
    fn transactions() {
        let to = Address::repeat_byte(2);
        let from = Address::repeat_byte(1);
        let least = format!(r#"{{"from":"{from}","to":"{to}"}}"#);
        let expected = TransactionRequest {
            from,
            to: Some(to),
            gas: None,
            gas_price: None,
            value: U256::ZERO,
            input: Bytes::new(),
            tx_nonce: None,
            sharding_flag: 0,
            via: None,
            chain_id: None,
            access_list: None,
        };
        assert_eq!(TransactionRequest::from_json(&least), Ok(expected.clone()));
        let all = format!(
            r#"{{"from":"{from}","to":null,"gas":"0x1","gasPrice":"0x2","value":"0x3","input":"0x04",
            "data":"0x04","nonce":"0x5","shardingFlag":"0x1","via":"{to}","chainId":"0x64","type":"0x0","accessList":null}}"#
        );
        let expected = TransactionRequest {
            to: None,
            gas: Some(1),
            gas_price: Some(U256::from(2)),
            value: U256::from(3),
            input: Bytes::from_static(&[4]),
            tx_nonce: Some(5),
            sharding_flag: 1,
            via: Some(to),
            chain_id: Some(100),
            ..expected
        };
        assert_eq!(TransactionRequest::from_json(&all), Ok(expected));
        for typed in [r#""type":"0x1""#, r#""accessList":[]"#] {
            let typed = format!(r#"{{"from":"{from}","to":"{to}",{typed}}}"#);
            let typed = TransactionRequest::from_json(&typed).map(|given| given.access_list);
            assert_eq!(typed, Ok(Some(Vec::new())));
        }
        let empty = format!(r#"{{"from":"{from}","to":"{to}","via":"0x"}}"#);
        assert_eq!(
            TransactionRequest::from_json(&empty).map(|given| given.via),
            Ok(None)
        );
    }

    #[test]
    fn refused_objects() {
        let from = Address::repeat_byte(1);
        let check = |members: &str, expected: &str| {
            check_error::<TransactionRequest>(&format!(r#"{{"from":"{from}"{members}}}"#), expected);
        };
        check("", "expected a field to, or the code of a contract as data");
        check(r#","to":"0x""#, "field to: got 0 bytes, expected 20 bytes");
        check(
            r#","to":"0xf39FD6e51aad88F6F4ce6aB8827279cffFb92266""#,
            "field to: the checksum of the address is wrong: got 0xf39FD6e51aad88F6F4ce6aB8827279cffFb92266, expected 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        );
        check(r#","gas":"90000""#, "field gas: missing 0x prefix");
        check(
            r#","gas":90000"#,
            "field gas: got a number, expected a hex string",
        );
        check(r#","value":"0x00""#, "field value: leading zero digits");
        check(r#","data":"0x1""#, "field data: odd number of hex digits");
        check(
            r#","data":"0x01","input":"0x02""#,
            "fields data and input differ, expected one of them",
        );
        check(
            r#","nonce":"0x10000000000000000""#,
            "field nonce: number does not fit 64 bits",
        );
        for (members, expected) in [
            (r#","type":"0x2""#, "field type: got 2, expected 0, 1 or none"),
            (r#","type":"two""#, "field type: missing 0x prefix"),
            (r#","chainId":"100""#, "field chainId: missing 0x prefix"),
            (
                r#","maxFeePerGas":"0x1""#,
                "field maxFeePerGas: got one, expected none: this chain has no transactions of type 2 (EIP-1559)",
            ),
            (
                r#","accessList":[],"type":"0x0""#,
                "field type: got 0, expected 1 beside accessList",
            ),
            (
                r#","accessList":{}"#,
                "field accessList: got an object, expected an array",
            ),
            (
                r#","authorizationList":[{}]"#,
                "field authorizationList: got one, expected none: this chain has no transactions of type 4 (EIP-7702)",
            ),
        ] {
            check(members, expected);
        }
        check_error::<TransactionRequest>("{}", "missing field from");
        check_error::<CallObject>("[]", "got an array, expected an object");
        check_error::<CallObject>(r#"{"to":"0x12"}"#, "field to: got 1 byte, expected 20 bytes");
    }

    #[test]
    fn calls_may_say_what_they_would_pay() {
        let idle = r#"{"type":"0x2","maxFeePerGas":"0x5","maxPriorityFeePerGas":"0x1","accessList":[],
            "chainId":100,"blobs":null}"#;
        let call = CallObject::from_json(idle).expect("a call");
        assert_eq!((call.request.gas_price, call.chain_id), (U256::ZERO, Some(100)));
        check_error::<CallObject>(
            r#"{"gasPrice":"0x1","maxPriorityFeePerGas":"0x1"}"#,
            "fields gasPrice and maxPriorityFeePerGas exclude each other, expected one of them",
        );
        check_error::<CallObject>(
            r#"{"maxFeePerGas":1}"#,
            "field maxFeePerGas: got a number, expected a hex string",
        );
        check_error::<CallObject>(
            r#"{"blobVersionedHashes":[]}"#,
            "field blobVersionedHashes: got one, expected none: this chain has no transactions of type 3 (EIP-4844)",
        );
    }
}
