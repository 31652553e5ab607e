//! The objects that say what a call replaces before it runs: values of accounts, and of the block.

use std::collections::BTreeSet;

use chain::call::BlockOverride;
use chain::state::{AccountOverride, StorageOverride};
use primitives::{Address, B256, Bytes, U256};

use super::request::Word;
use crate::decode::{FromParam, ParamFields, WrittenAddress, read_map};
use crate::error::cut_name;
use crate::types::{Count, Data, ParamError, Quantity};
use crate::wire_type::WireType;

/// The accounts that a call replaces values of: an object with a member for each address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::methods) struct StateOverrides(pub(super) Vec<(Address, AccountOverride)>);

impl FromParam for StateOverrides {
    const TYPE: WireType = WireType::Map(&WireType::Named("AccountOverride"));

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let mut seen = BTreeSet::new();
        let read = |(name, json): (&str, &str)| {
            let WrittenAddress(address) = WrittenAddress::decode(name).map_err(|reason| at(name, reason))?;
            if !seen.insert(address) {
                return Err(ParamError::RepeatedField(name.to_owned()));
            }
            let change = account_override(json).map_err(|reason| at(name, reason))?;
            Ok((address, change))
        };
        read_map(json, read).map(Self)
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }
}

/// The error of a member whose name is not fixed.
fn at(name: &str, reason: ParamError) -> ParamError {
    ParamError::Rule(format!("{}: {reason}", cut_name(name)))
}

fn account_override(json: &str) -> Result<AccountOverride, ParamError> {
    let fields = ParamFields::read(json)?;
    if fields
        .json("movePrecompileToAddress")
        .is_some_and(|json| json != "null")
    {
        return Err(ParamError::Rule(
            "field movePrecompileToAddress: got one, expected none: built-in contracts stay where they are"
                .to_owned(),
        ));
    }
    let tx_nonce: Option<Count> = fields.get("nonce")?;
    let balance: Option<Quantity<U256>> = fields.get("balance")?;
    let code: Option<Data> = fields.get("code")?;
    let all: Option<SlotOverrides> = fields.get("state")?;
    let some: Option<SlotOverrides> = fields.get("stateDiff")?;
    let storage = match (all, some) {
        (None, None) => StorageOverride::Keep,
        (Some(SlotOverrides(slots)), None) => StorageOverride::Replace(slots),
        (None, Some(SlotOverrides(slots))) => StorageOverride::Change(slots),
        (Some(_), Some(_)) => {
            return Err(ParamError::Rule(
                "fields state and stateDiff exclude each other, expected one of them".to_owned(),
            ));
        }
    };
    Ok(AccountOverride {
        tx_nonce: tx_nonce.map(|nonce| nonce.0),
        balance: balance.map(|balance| balance.0),
        code: code.map(|code| Bytes::from(code.0)),
        storage,
    })
}

/// Slots with their values.
struct SlotOverrides(Vec<(U256, U256)>);

impl FromParam for SlotOverrides {
    const TYPE: WireType = WireType::Map(&WireType::Named("WORD"));

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let text = |json: &str| Word::from_json(json).map(|word| word.0);
        let read = |(name, json): (&str, &str)| {
            let slot = text(&format!("\"{name}\"")).map_err(|reason| at(name, reason))?;
            let value = text(json).map_err(|reason| at(name, reason))?;
            Ok((slot, value))
        };
        read_map(json, read).map(Self)
    }
}

/// The values of the block that a call replaces. Each has the name that `geth` gives it, or the one
/// that blocks have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::methods) struct BlockOverrides(pub(super) BlockOverride);

impl FromParam for BlockOverrides {
    const TYPE: WireType = WireType::Named("BlockOverrides");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json)?;
        for name in ["baseFee", "baseFeePerGas"] {
            let base_fee: Option<Quantity<U256>> = fields.get(name)?;
            if base_fee.is_some_and(|fee| !fee.0.is_zero()) {
                return Err(ParamError::Rule(format!(
                    "field {name}: got one, expected none or 0x0: this chain has no base fee"
                )));
            }
        }
        let count = |names| -> Result<Option<u64>, ParamError> {
            Ok(either::<Count>(&fields, names)?.map(|count| count.0))
        };
        Ok(Self(BlockOverride {
            number: count(["number", "blockNumber"])?,
            timestamp: count(["time", "timestamp"])?,
            gas_limit: count(["gasLimit", "gasLimit"])?,
            beneficiary: either::<WrittenAddress>(&fields, ["coinbase", "feeRecipient"])?
                .map(|address| address.0),
            difficulty: either::<Quantity<U256>>(&fields, ["difficulty", "difficulty"])?
                .map(|difficulty| difficulty.0),
            random: either::<B256>(&fields, ["random", "prevRandao"])?,
        }))
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }
}

/// The value of one of two names of a field.
fn either<T: FromParam>(
    fields: &ParamFields<'_>,
    [one, other]: [&'static str; 2],
) -> Result<Option<T>, ParamError> {
    Ok(match fields.get::<Option<T>>(one)? {
        None => fields.get(other)?,
        some => some,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: FromParam + PartialEq + std::fmt::Debug>(json: &str, expected: Result<T, &str>) {
        let got = T::from_json(json).map_err(|error| error.to_string());
        assert_eq!(got, expected.map_err(str::to_owned), "{json}");
    }

    #[test]
    fn accounts() {
        let address = Address::repeat_byte(1);
        let of = |members: &str| format!(r#"{{"{address}":{members}}}"#);
        let one = |change| Ok(StateOverrides(vec![(address, change)]));
        check("{}", Ok(StateOverrides::default()));
        check(&of("{}"), one(AccountOverride::default()));
        let slots = vec![(U256::from(1), U256::from(2))];
        check(
            &of(r#"{"nonce":"0x5","balance":"0x7","code":"0x6001","state":{"0x1":"0x2"}}"#),
            one(AccountOverride {
                tx_nonce: Some(5),
                balance: Some(U256::from(7)),
                code: Some(Bytes::from_static(&[0x60, 1])),
                storage: StorageOverride::Replace(slots.clone()),
            }),
        );
        let word = |value: u64| format!("0x{value:064x}");
        check(
            &of(&format!(r#"{{"stateDiff":{{"{}":"{}"}}}}"#, word(1), word(2))),
            one(AccountOverride {
                storage: StorageOverride::Change(slots),
                ..AccountOverride::default()
            }),
        );
    }

    #[test]
    fn refused_accounts() {
        let address = format!("{:#x}", Address::repeat_byte(1));
        let check_one = |members: &str, reason: &str| {
            let json = format!(r#"{{"{address}":{members}}}"#);
            check::<StateOverrides>(&json, Err(&format!("{address}: {reason}")));
        };
        check::<StateOverrides>(
            r#"{"0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed":{}}"#,
            Err(
                "0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed: the checksum of the address is wrong: got \
                 0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed, expected 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            ),
        );
        check_one("1", "got a number, expected an object");
        check_one(r#"{"balance":"7"}"#, "field balance: missing 0x prefix");
        check_one(
            r#"{"state":{},"stateDiff":{}}"#,
            "fields state and stateDiff exclude each other, expected one of them",
        );
        check_one(
            r#"{"state":{"one":"0x1"}}"#,
            "field state: one: missing 0x prefix",
        );
        check_one(
            r#"{"state":{"0x1":1}}"#,
            "field state: 0x1: got a number, expected a hex string",
        );
        check_one(
            r#"{"movePrecompileToAddress":"0x0000000000000000000000000000000000000009"}"#,
            "field movePrecompileToAddress: got one, expected none: built-in contracts stay where they are",
        );
        check::<StateOverrides>("[]", Err("got an array, expected an object"));
        check::<StateOverrides>(r#"{"0x1":{}}"#, Err("0x1: odd number of hex digits"));
        let twice = format!(r#"{{"{address}":{{}},"{address}":{{}}}}"#);
        check::<StateOverrides>(&twice, Err(&format!("field {address} given twice")));
        let many: Vec<_> = (0..1025).map(|slot| format!(r#""0x{slot:x}":"0x1""#)).collect();
        check_one(
            &format!(r#"{{"state":{{{}}}}}"#, many.join(",")),
            "field state: got 1025 members, expected at most 1024",
        );
    }

    #[test]
    fn blocks() {
        let all = BlockOverrides(BlockOverride {
            number: Some(9),
            timestamp: Some(1000),
            gas_limit: Some(5),
            beneficiary: Some(Address::repeat_byte(2)),
            difficulty: Some(U256::from(3)),
            random: Some(B256::repeat_byte(4)),
        });
        let text = |number: &str, time: &str, coinbase: &str, random: &str| {
            format!(
                r#"{{"{number}":"0x9","{time}":1000,"gasLimit":"0x5","{coinbase}":"{}","difficulty":"0x3",
                "{random}":"{}","baseFee":"0x0"}}"#,
                Address::repeat_byte(2),
                B256::repeat_byte(4)
            )
        };
        check(&text("number", "time", "coinbase", "random"), Ok(all.clone()));
        check(
            &text("blockNumber", "timestamp", "feeRecipient", "prevRandao"),
            Ok(all),
        );
        check("{}", Ok(BlockOverrides::default()));
        check::<BlockOverrides>(
            r#"{"baseFeePerGas":"0x1"}"#,
            Err("field baseFeePerGas: got one, expected none or 0x0: this chain has no base fee"),
        );
        check::<BlockOverrides>(r#"{"time":"soon"}"#, Err("field time: missing 0x prefix"));
    }
}
