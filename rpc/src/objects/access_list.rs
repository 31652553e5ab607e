//! The access list of a transaction as JSON, in parameters and in results (EIP-2930).

use primitives::{AccessListEntry, Address, B256};
use serde::{Serialize, Serializer};

use crate::decode::{FromParam, ParamFields, WrittenAddress};
use crate::types::{Data, ParamError};
use crate::wire_type::WireType;

/// An entry of an access list that a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedAccount(pub(crate) AccessListEntry);

impl FromParam for ListedAccount {
    const TYPE: WireType = WireType::Named("AccessListEntry");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json)?;
        let slots: Option<Vec<B256>> = fields.get("storageKeys")?;
        Ok(Self(AccessListEntry {
            address: fields.get::<WrittenAddress>("address")?.0,
            slots: slots.unwrap_or_default(),
        }))
    }
}

/// An access list that is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownAccessList<'a>(pub(crate) &'a [AccessListEntry]);

/// An entry of an access list that is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownEntry {
    address: Data<Address>,
    storage_keys: Vec<Data<B256>>,
}

impl Serialize for ShownAccessList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|entry| ShownEntry {
            address: Data(entry.address),
            storage_keys: entry.slots.iter().copied().map(Data).collect(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_was_sent() {
        let address = Address::repeat_byte(7);
        let slot = B256::repeat_byte(9);
        let text = format!(r#"[{{"address":"{address:#x}","storageKeys":["{slot}"]}}]"#);
        let list = Vec::<ListedAccount>::from_json(&text).expect("a list");
        let list: Vec<_> = list.into_iter().map(|entry| entry.0).collect();
        assert_eq!(list[0].slots, [slot]);
        let shown = serde_json::to_string(&ShownAccessList(&list)).expect("JSON");
        assert_eq!(shown, text);
        let checksum = r#"[{"address":"0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}]"#;
        for wrong in [r#"[{}]"#, r#"[{"address":"0x01"}]"#, r#"[7]"#, checksum] {
            assert!(Vec::<ListedAccount>::from_json(wrong).is_err(), "{wrong}");
        }
    }
}
