//! A VNODE that lies.

use chain::genesis::ensure_genesis;
use chain::spec::GenesisAccount;
use chain::view::View;
use microchain::abi::CallData;
use microchain::contract::Proposal;
use primitives::hex;
use store::Store;

use super::headers::tests::{first, line};
use super::*;
use crate::base::BaseReader;
use crate::source::BaseSource;

const CONTRACT: Address = Address::repeat_byte(0xcc);
/// Code that answers with the value of slot 1.
const GETTER: &str = "60015460005260206000f3";
const VALUE: u64 = 77;
/// Code that answers with the hash of block 8.
const HASH_GETTER: &str = "60084060005260206000f3";

/// The faults of a VNODE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    None,
    /// The slots have the values that are told.
    Value,
    /// The proof is of another account.
    OtherAccount,
    /// The proof is no RLP.
    Bytes,
    NoProof,
    Code,
    /// The headers begin at another number.
    Number,
    NoHeaders,
}

#[derive(Debug)]
struct LyingState {
    lie: Lie,
    /// All headers from block 0 on.
    headers: Vec<Header>,
    /// The contract's code.
    code: String,
    /// The values of its slots from slot 0 on.
    slots: Vec<u64>,
    /// The same for [`Lie::Value`].
    told: Vec<u64>,
}

#[derive(Clone, Debug)]
struct LyingVnode(Arc<Mutex<LyingState>>);

/// A chain whose contract has this code, and these values from slot 0 on.
fn view(code: &str, slots: &[u64]) -> View {
    let mut spec = ChainSpec::dev();
    let storage = (0_u64..).zip(slots).filter(|(_, value)| **value > 0);
    let storage = storage.map(|(slot, value)| (U256::from(slot), U256::from(*value)));
    let contract = GenesisAccount {
        code: hex::decode(code).expect("hex").into(),
        balance: U256::from(5),
        storage: storage.collect(),
        ..GenesisAccount::default()
    };
    spec.genesis.alloc.insert(CONTRACT, contract);
    let store = Store::in_memory().expect("memory");
    ensure_genesis(&store, &spec).expect("block 0");
    View::new(&store, Arc::new(spec)).expect("a view")
}

/// Block 0, and `count` blocks after it, all with the state of the usual contract.
fn chain_of(mark: u8, count: usize) -> Vec<Header> {
    chain_on(&view(GETTER, &[0, VALUE]), mark, count)
}

/// The same with the state of a view.
fn chain_on(view: &View, mark: u8, count: usize) -> Vec<Header> {
    let block = view.header(0).expect("memory").expect("block 0");
    let first = Header {
        state_root: block.1.header.state_root,
        ..first()
    };
    grown(vec![first], mark, count)
}

/// The headers with `count` more, which have the state of the last one.
fn grown(mut headers: Vec<Header>, mark: u8, count: usize) -> Vec<Header> {
    for _ in 0..count {
        let last = headers.last().expect("block 0");
        let mut next = line(last, mark, 1).remove(0);
        next.state_root = last.state_root;
        headers.push(next);
    }
    headers
}

impl LyingVnode {
    fn new(headers: Vec<Header>) -> Self {
        Self(Arc::new(Mutex::new(LyingState {
            lie: Lie::None,
            headers,
            code: GETTER.to_owned(),
            slots: vec![0, VALUE],
            told: vec![0, VALUE + 1],
        })))
    }

    /// A VNODE whose contract has this code and these slots.
    fn with_contract(code: &str, slots: &[u64]) -> Self {
        let vnode = Self::new(chain_on(&view(code, slots), 1, 9));
        let mut state = vnode.0.lock();
        state.code = code.to_owned();
        state.slots = slots.to_vec();
        drop(state);
        vnode
    }

    fn lie(&self, lie: Lie) {
        self.0.lock().lie = lie;
    }

    fn show(&self, headers: Vec<Header>) {
        self.0.lock().headers = headers;
    }
}

impl ProvingVnode for LyingVnode {
    async fn headers(&self, number: u64, count: u64) -> Result<Vec<Header>, ScsClientError> {
        let state = self.0.lock();
        let skipped = number as usize + usize::from(state.lie == Lie::Number);
        if state.lie == Lie::NoHeaders {
            return Ok(Vec::new());
        }
        Ok(state
            .headers
            .iter()
            .skip(skipped)
            .take(count as usize)
            .cloned()
            .collect())
    }

    async fn witness(&self, wish: &WitnessWish) -> Result<Option<Bytes>, ScsClientError> {
        let state = self.0.lock();
        let header = state.headers.get(wish.number as usize);
        if header.map(Header::hash) != Some(wish.hash) || state.lie == Lie::NoProof {
            return Ok(None);
        }
        let (slots, contract) = match state.lie {
            Lie::Value => (&state.told, wish.contract),
            Lie::OtherAccount => (&state.slots, Address::ZERO),
            Lie::Bytes => return Ok(Some(vec![1, 2, 3].into())),
            _ => (&state.slots, wish.contract),
        };
        let request = wish
            .input
            .clone()
            .map(|input| contract_call(Some(&contract), input));
        let view = view(&state.code, slots);
        let witness = view.witness(0, contract, &wish.slots, request.as_ref(), TIMEOUT_DEFAULT);
        let witness = witness.expect("the call runs").expect("the tries of the head");
        Ok(Some(witness.encode().into()))
    }

    async fn code(&self, _: Address) -> Result<Bytes, ScsClientError> {
        let state = self.0.lock();
        let code = match state.lie {
            Lie::Code => "00",
            _ => &state.code,
        };
        Ok(hex::decode(code).expect("hex").into())
    }
}

fn base_in(
    home: &tempfile::TempDir,
    vnode: &LyingVnode,
    checkpoint: Option<BaseCheckpoint>,
) -> ProvenBase<LyingVnode> {
    let checks = BaseChecks {
        spec: ChainSpec::dev(),
        seals: false,
        checkpoint,
    };
    let folders = Folders::open(home.path()).expect("writable");
    ProvenBase::new(vnode.clone(), checks, folders, Arc::default()).expect("it opens")
}

fn scene(count: usize) -> (tempfile::TempDir, LyingVnode, ProvenBase<LyingVnode>) {
    let home = tempfile::tempdir().expect("a folder");
    let vnode = LyingVnode::new(chain_of(1, count));
    let base = base_in(&home, &vnode, None);
    (home, vnode, base)
}

fn text<T: std::fmt::Debug>(result: Result<T, BaseReadError>) -> String {
    result.expect_err("refused").to_string()
}

#[tokio::test]
async fn an_honest_vnode_is_read() {
    let (_home, _vnode, base) = scene(9);
    assert!(base.call(CONTRACT, Bytes::new()).await.is_err(), "no head yet");
    assert_eq!(base.follow(9).await.expect("its headers are right"), 9);
    let value = base.call(CONTRACT, Bytes::new()).await.expect("proven");
    assert_eq!(U256::from_be_slice(&value), U256::from(VALUE));
    let slots = vec![U256::from(1), U256::from(2)];
    let contract = base.contract(CONTRACT, slots).await.expect("proven");
    let contract = contract.expect("it exists");
    assert_eq!((contract.balance, contract.code.len()), (U256::from(5), 11));
    assert_eq!(contract.storage[&U256::from(1)], U256::from(VALUE));
    assert_eq!(contract.storage[&U256::from(2)], U256::ZERO);
    let nobody = base.contract(Address::repeat_byte(3), Vec::new()).await;
    assert_eq!(nobody.expect("proven"), None);
    let branch = base.branch().expect("a head");
    assert_eq!((branch.number, branch.hashes.len()), (8, 9));
    assert!(base.state.refusals.last().is_none());
}

#[tokio::test]
async fn what_a_vnode_makes_up_is_refused() {
    let (_home, vnode, base) = scene(9);
    base.follow(9).await.expect("its headers are right");
    for (lie, expected) in [
        (Lie::Value, "the proof has no node"),
        (Lie::OtherAccount, "not proven"),
        (Lie::Bytes, "proof: "),
        (Lie::NoProof, "got none, expected one"),
        (Lie::Code, "code of 0x"),
    ] {
        vnode.lie(lie);
        let error = text(base.call(CONTRACT, Bytes::new()).await);
        assert!(error.contains(expected), "{lie:?}: {error}");
        assert!(error.starts_with("the VNODE is not believed: "), "{error}");
        let noted = base.state.refusals.last().expect("noted");
        assert!(error.ends_with(&noted), "{noted}");
    }
    vnode.lie(Lie::Value);
    let error = text(base.contract(CONTRACT, vec![U256::from(1)]).await);
    assert!(error.contains("no node"), "{error}");
    vnode.lie(Lie::OtherAccount);
    let error = text(base.contract(CONTRACT, vec![U256::from(1)]).await);
    assert!(error.contains("without the account"), "{error}");
    for (lie, expected) in [
        (Lie::Number, "header: got number 8, expected 7"),
        (Lie::NoHeaders, "header 1: got none"),
    ] {
        vnode.lie(lie);
        let error = text(base.follow(9).await);
        assert!(error.contains(expected), "{lie:?}: {error}");
    }
    vnode.lie(Lie::None);
    assert!(base.call(CONTRACT, Bytes::new()).await.is_ok());
}

#[tokio::test]
async fn another_branch_must_be_as_heavy_and_not_too_deep() {
    let (home, vnode, base) = scene(400);
    // The oldest header is the one 256 blocks below the head.
    assert_eq!(base.follow(300).await.expect("right"), 400);
    assert_eq!(base.ends().expect("a head").1.number, 144);
    let old = vnode.0.lock().headers.clone();
    let fork = |at: usize, mark, count| grown(old[..=at].to_vec(), mark, count);
    vnode.show(fork(350, 2, 40));
    let error = text(base.follow(390).await);
    assert!(
        error.contains("head 390") && error.contains("work since block 144"),
        "{error}"
    );
    vnode.show(fork(150, 3, 251));
    assert_eq!(base.follow(401).await.expect("more work"), 401);
    // A branch that ends with a full answer.
    vnode.show(fork(150, 6, 144 + BATCH as usize - 150));
    let error = text(base.follow(336).await);
    assert!(error.contains("head 336: got"), "{error}");
    vnode.show(fork(40, 4, 400));
    let error = text(base.follow(440).await);
    assert!(error.contains("header 145: got the parent"), "{error}");
    // The same holds after a restart.
    let again = base_in(&home, &vnode, None);
    let error = text(again.follow(440).await);
    assert!(error.contains("header 145: got the parent"), "{error}");
    vnode.show(fork(350, 5, 60));
    assert_eq!(again.follow(410).await.expect("right"), 410);
}

#[tokio::test]
async fn a_vnode_that_is_late_is_no_liar() {
    let (_home, vnode, base) = scene(9);
    base.follow(9).await.expect("its headers are right");
    let all = vnode.0.lock().headers.clone();
    vnode.show(all[..=7].to_vec());
    let error = text(base.follow(7).await);
    assert_eq!(
        error,
        "the base chain cannot be checked now: head of the VNODE: got block 7, expected block 9, which \
         was shown before"
    );
    assert_eq!(base.state.refusals.last(), None);
    vnode.show(all);
    assert_eq!(base.follow(9).await.expect("its headers are right"), 9);
}

#[tokio::test]
async fn a_header_that_was_kept_without_seals_is_not_believed_with_seals() {
    let (home, vnode, base) = scene(9);
    base.follow(9).await.expect("its headers are right");
    assert!(base_in(&home, &vnode, None).state.head().is_some());
    let checks = BaseChecks {
        seals: true,
        ..base.state.checks.clone()
    };
    let folders = Folders::open(home.path()).expect("writable");
    let sealed = ProvenBase::new(vnode, checks, folders, Arc::default()).expect("it opens");
    assert_eq!(sealed.state.head(), None);
}

#[tokio::test]
async fn a_checkpoint_decides_which_chain_is_followed() {
    let (home, vnode, _) = scene(20);
    let hash = vnode.0.lock().headers[5].hash();
    let checkpoint = BaseCheckpoint { number: 5, hash };
    let base = base_in(&home, &vnode, Some(checkpoint));
    assert_eq!(base.follow(20).await.expect("the right chain"), 20);
    vnode.show(chain_of(2, 20));
    // The header of the checkpoint is in the data directory.
    let error = text(base_in(&home, &vnode, Some(checkpoint)).follow(20).await);
    assert!(error.contains("header 6: got the parent"), "{error}");
    let other = tempfile::tempdir().expect("a folder");
    let error = text(base_in(&other, &vnode, Some(checkpoint)).follow(20).await);
    assert!(
        error.contains("block 5: got the hash") && error.contains("checkpoint"),
        "{error}"
    );
    let number = BaseCheckpoint { number: 50, hash };
    let error = text(base_in(&other, &vnode, Some(number)).follow(20).await);
    assert!(error.contains("header 50: got none"), "{error}");
}

/// Reads through checks only.
#[derive(Clone, Debug)]
struct ProvenSource(ProvenBase<LyingVnode>);

impl BaseSource for ProvenSource {
    async fn call_contract(&self, contract: Address, input: Bytes) -> Result<Bytes, BaseReadError> {
        self.0.call(contract, input).await
    }

    async fn branch(&self) -> Result<Option<BaseBranch>, BaseReadError> {
        Ok(self.0.branch())
    }

    async fn contract_info(
        &self,
        contract: Address,
        slots: &[U256],
    ) -> Result<Option<ContractSummary>, BaseReadError> {
        self.0.contract(contract, slots.to_vec()).await
    }

    async fn nonce_with_pool(&self, _: Address) -> Result<u64, BaseReadError> {
        Ok(0)
    }
}

/// Code that answers with its slots from 0 on, so many words.
fn slots_getter(words: usize) -> String {
    // A loop: memory[32 i] = slot i.
    let end = 32 * words;
    format!("60005b805481602002526001018060{words:02x}1160025761{end:04x}6000f3")
}

/// The words of `getProposal` for a proposal with one uploaded withdrawal.
fn proposal_words(of: &Proposal) -> Vec<u64> {
    let numbers = |list: &[U256]| list.to_vec();
    let fields = CallData::default().address(of.proposed_by).word(of.last_approved);
    let fields = fields.word(of.hash).small(of.start).small(of.end);
    let fields = fields
        .numbers(numbers(&of.distribution))
        .small(of.flag)
        .small(of.starting_block);
    let fields = fields
        .numbers(of.voters.iter().map(|voter| U256::from(*voter)))
        .small(0);
    let fields = fields
        .numbers([])
        .address(of.via)
        .small(of.redemptions_left)
        .addresses(of.users.clone())
        .numbers(numbers(&of.tokens))
        .addresses(of.members.clone());
    let fields = fields.small(of.distribute_flag).addresses(of.agree.clone());
    let words = [CallData::default().small(32).encode(), fields.encode()].concat();
    let word = |bytes: &[u8]| U256::from_be_slice(bytes).try_into().expect("a small word");
    words.chunks(32).map(word).collect()
}

#[tokio::test]
async fn lies_about_proposals_and_uploaded_lists_are_refused() {
    let small = |number: u64| U256::from(number);
    let user = |mark: u64| Address::from_word(B256::from(U256::from(mark)));
    let truth = Proposal {
        proposed_by: user(11),
        hash: B256::from(small(12)),
        start: 1,
        end: 9,
        distribution: vec![small(4), small(5)],
        flag: 1,
        starting_block: 40,
        voters: vec![1],
        users: vec![user(21)],
        tokens: vec![small(600)],
        members: vec![user(11), user(13)],
        ..Proposal::default()
    };
    let words = proposal_words(&truth);
    let vnode = LyingVnode::with_contract(&slots_getter(words.len()), &words);
    let home = tempfile::tempdir().expect("a folder");
    let base = base_in(&home, &vnode, None);
    base.follow(9).await.expect("its headers are right");
    let reader = BaseReader::new(ProvenSource(base), user(11));
    let read = reader.proposal(CONTRACT, 1).await.expect("proven");
    assert_eq!(read, truth);

    vnode.lie(Lie::Value);
    let told = |change: fn(&mut Proposal)| {
        let mut told = truth.clone();
        change(&mut told);
        proposal_words(&told)
    };
    for lie in [
        // A member gets all that is paid out.
        told(|proposal| proposal.users[0] = proposal.members[1]),
        told(|proposal| proposal.tokens[0] = U256::from(601)),
        // The list has one withdrawal more.
        told(|proposal| {
            proposal.users.push(proposal.members[1]);
            proposal.tokens.push(U256::from(7));
        }),
        // The proposal is approved, has more votes, or another hash or end.
        told(|proposal| proposal.flag = 3),
        told(|proposal| proposal.voters.push(0)),
        told(|proposal| proposal.hash = B256::from(U256::from(99))),
        told(|proposal| proposal.end = 8),
        told(|proposal| proposal.distribution[1] = U256::from(500)),
    ] {
        assert_ne!(lie, words);
        vnode.0.lock().told = lie;
        let error = reader.proposal(CONTRACT, 1).await.expect_err("a lie").to_string();
        assert!(error.contains("the VNODE is not believed"), "{error}");
    }
}

#[tokio::test]
async fn a_call_gets_the_hashes_of_checked_blocks_only() {
    let vnode = LyingVnode::with_contract(HASH_GETTER, &[]);
    let hashes = vnode.0.lock().headers.clone();
    let home = tempfile::tempdir().expect("a folder");
    let base = base_in(&home, &vnode, None);
    base.follow(9).await.expect("its headers are right");
    let answer = base.call(CONTRACT, Bytes::new()).await.expect("block 8 is known");
    assert_eq!(answer[..], hashes[8].hash()[..]);
    // A tree that begins at block 9 does not know block 8.
    let checkpoint = BaseCheckpoint {
        number: 9,
        hash: hashes[9].hash(),
    };
    let home = tempfile::tempdir().expect("a folder");
    let base = base_in(&home, &vnode, Some(checkpoint));
    base.follow(9).await.expect("its headers are right");
    let error = text(base.call(CONTRACT, Bytes::new()).await);
    assert!(
        error.contains("the hash of block 8, which is not known"),
        "{error}"
    );
    assert_eq!(base.state.refusals.last(), None, "the VNODE has not lied");
}

#[tokio::test]
async fn a_chain_without_a_checkpoint_begins_no_higher_than_a_network_is() {
    let (home, vnode, base) = scene(9);
    let checks = BaseChecks {
        seals: true,
        ..base.state.checks.clone()
    };
    let folders = Folders::open(home.path()).expect("writable");
    let sealed = ProvenBase::new(vnode, checks, folders, Arc::default()).expect("it opens");
    for told in [100_000_000, u64::MAX] {
        let error = text(sealed.follow(told).await);
        assert!(
            error.contains("expected at most 2047") && error.contains("--verify-base.checkpoint"),
            "{error}"
        );
    }
    assert!(sealed.state.refusals.last().is_some());
    assert_eq!(sealed.state.head(), None);
}
