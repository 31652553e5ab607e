use bytes::Bytes;

use super::super::host::HostContract;
use super::*;

/// A storage in memory.
#[derive(Default)]
struct Slots {
    contract: HostContract,
    values: BTreeMap<U256, U256>,
    /// Slots of which only the hash of the number is known.
    unknown: usize,
}

impl Slots {
    fn set(&mut self, slot: U256, value: u64) {
        self.values.insert(slot, U256::from(value));
    }
}

impl ContractView for Slots {
    fn contract(&self) -> &HostContract {
        &self.contract
    }

    fn slot(&self, slot: &U256) -> Result<U256, HostError> {
        Ok(self.values.get(slot).copied().unwrap_or_default())
    }

    fn visit_slots(&self, visit: &mut dyn FnMut(Option<U256>, U256) -> bool) -> Result<(), HostError> {
        let known = self.values.iter().map(|(slot, value)| (Some(*slot), *value));
        let unknown = std::iter::repeat_n((None, U256::ONE), self.unknown);
        let _ = known.chain(unknown).all(|(slot, value)| visit(slot, value));
        Ok(())
    }
}

fn slot(number: u64) -> U256 {
    U256::from(number)
}

fn after(slot: U256, count: u64) -> U256 {
    slot.wrapping_add(U256::from(count))
}

fn request(reqtype: u32, key: u64, position: &'static [u8], format: &'static str) -> StorageRequest {
    StorageRequest {
        reqtype,
        storagekey: Bytes::copy_from_slice(&slot(key).to_be_bytes::<32>()),
        position: Bytes::from_static(position),
        structformat: Bytes::from_static(format.as_bytes()),
    }
}

fn read(view: &Slots, request: StorageRequest) -> StorageAnswer {
    read_storage(view, &[request]).expect("an answer").slots
}

#[track_caller]
fn check(view: &Slots, request: StorageRequest, expected: &[(U256, &str)]) {
    let expected = expected
        .iter()
        .map(|(slot, value)| (slot_text(*slot), (*value).to_owned()))
        .collect();
    assert_eq!(read(view, request), expected);
}

#[test]
fn values_are_rlp_in_hex() {
    let mut view = Slots::default();
    view.set(slot(1), 0x7f);
    view.set(slot(2), 0x80);
    view.set(slot(3), 0x1234);
    check(&view, request(4, 1, b"", ""), &[(slot(1), "7f")]);
    check(&view, request(4, 2, b"", ""), &[(slot(2), "8180")]);
    check(&view, request(4, 9, b"", ""), &[(slot(9), "")]);
    check(
        &view,
        request(0, 0, b"", ""),
        &[(slot(1), "7f"), (slot(2), "8180"), (slot(3), "821234")],
    );
    let two = [request(4, 1, b"", ""), request(4, 3, b"", "")];
    assert_eq!(read_storage(&view, &two).expect("an answer").slots.len(), 2);
    assert_eq!(read_storage(&view, &[]), Ok(StorageParts::default()));
}

#[test]
fn slots_whose_number_is_not_known_are_counted() {
    let mut view = Slots::default();
    view.set(slot(1), 0x7f);
    view.unknown = 2;
    let all = || request(0, 0, b"", "");
    let parts = read_storage(&view, &[all(), all()]).expect("an answer");
    assert_eq!((parts.slots.len(), parts.unknown), (1, 2));
    // Single slots are found by the hash of their number.
    let single = read_storage(&view, &[request(4, 1, b"", "")]).expect("an answer");
    assert_eq!((single.slots.len(), single.unknown), (1, 0));
    view.unknown = STORAGE_SLOTS_MAX;
    assert!(matches!(
        read_storage(&view, &[all()]),
        Err(HostError::TooMuch(_))
    ));
}

#[test]
fn arrays() {
    let mut view = Slots::default();
    let data = data_slot(slot(5));
    view.set(slot(5), 2);
    view.set(data, 8);
    view.set(after(data, 1), 10);
    view.set(after(data, 2), 12);
    check(
        &view,
        request(1, 5, b"", ""),
        &[(slot(5), "02"), (data, "08"), (after(data, 1), "0a")],
    );
    check(&view, request(1, 5, &[1], ""), &[(after(data, 1), "0a")]);
    // Of structs with two members the second one begins two slots later.
    check(
        &view,
        request(1, 5, &[1], "11"),
        &[(after(data, 2), "0c"), (after(data, 3), "")],
    );
}

#[test]
fn mappings_structs_and_strings() {
    let mut view = Slots::default();
    let entry =
        U256::from_be_bytes(keccak256([slot(7).to_be_bytes::<32>(), slot(6).to_be_bytes::<32>()].concat()).0);
    view.set(entry, 3);
    view.set(after(entry, 1), 1);
    view.set(data_slot(after(entry, 1)), 9);
    // A string of 40 bytes has 81 in its slot.
    view.set(after(entry, 2), 81);
    let text = data_slot(after(entry, 2));
    view.set(text, 0x61);
    check(&view, request(2, 6, &[7], ""), &[(entry, "03")]);
    let whole = [
        (entry, "03"),
        (after(entry, 1), "01"),
        (data_slot(after(entry, 1)), "09"),
        (after(entry, 2), "51"),
        (text, "61"),
        (after(text, 1), ""),
    ];
    check(&view, request(2, 6, &[7], "123"), &whole);
    view.values = view.values.iter().map(|(slot, value)| (*slot, *value)).collect();
    let mut moved = Slots::default();
    moved.set(slot(1), 81);
    moved.set(data_slot(slot(1)), 0x61);
    let long = [
        (slot(1), "51"),
        (data_slot(slot(1)), "61"),
        (after(data_slot(slot(1)), 1), ""),
    ];
    check(&moved, request(5, 1, b"", ""), &long);
    check(
        &moved,
        request(3, 0, b"", "13"),
        &[&[(slot(0), "")], &long[..]].concat(),
    );
    // An odd number without bytes elsewhere is a number.
    view.set(slot(2), 81);
    check(&view, request(5, 2, b"", ""), &[(slot(2), "51")]);
}

#[test]
fn what_has_no_meaning_is_refused_and_sizes_are_bounded() {
    let mut view = Slots::default();
    let error = |view: &Slots, request| match read_storage(view, &[request]) {
        Err(HostError::Refused(text) | HostError::TooMuch(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        error(&view, request(6, 0, b"", "")),
        "reqtype: got 6, expected 0 to 5"
    );
    assert_eq!(
        error(&view, request(2, 0, b"", "")),
        "position: got 0 bytes, expected 1 to 32"
    );
    assert_eq!(
        error(&view, request(3, 0, b"", "14")),
        "structformat: got a byte 0x34, expected the digits 1, 2 or 3"
    );
    view.values.insert(slot(1), U256::MAX);
    let too_many = "storage: got more than 16384 slots, expected at most 16384";
    assert_eq!(error(&view, request(1, 1, b"", "")), too_many);
    for number in 0..20_000 {
        view.set(slot(number), 1);
    }
    assert_eq!(error(&view, request(0, 0, b"", "")), too_many);
    let many = vec![request(4, 0, b"", ""); STORAGE_REQUESTS_MAX + 1];
    assert!(read_storage(&view, &many).is_err());
}
