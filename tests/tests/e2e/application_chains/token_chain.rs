//! A MicroChain whose tokens are bought with an ERC-20 token of the base chain.

use e2e::microchain::{Argument, MicroChainOwner, works};
use e2e::quantity;
use e2e::wait::wait_within;
use serde_json::{Value, json};

use crate::application_chains::stage::{MAKES_BLOCKS, PROXY, free_port, scs, vnode};

/// Decimals of the ERC-20 token.
const PLACES: u32 = 6;
/// Tokens of the MicroChain for one.
const RATE: u128 = 10;
/// Longest wait for a flush.
const FLUSH_PATIENCE: std::time::Duration = std::time::Duration::from_secs(240);

#[test]
fn tokens_are_bought_and_paid_out_in_an_erc20_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = format!("127.0.0.1:{}", free_port());
    let node = vnode(&folder.path().join("vnode"), &service, PROXY, &MAKES_BLOCKS);
    let servers = ["a", "b", "c"].map(|name| scs(&folder.path().join(name), &service));
    let servers: Vec<_> = servers.iter().collect();
    let owner = MicroChainOwner::new(&node, PROXY);
    let account = owner.address().to_owned();
    let pools = owner.pools(&service, &servers, 1);
    let one = 10_u128.pow(PLACES);
    let text = |text: &str| Argument::Text(text.to_owned());
    let supply = [
        text("Gold"),
        text("GLD"),
        Argument::Number(u128::from(PLACES)),
        Argument::Number(1_000_000 * one),
    ];
    let token = owner.create("Token", &supply);
    let chain = owner.token_chain(&pools, &token, RATE, 3);
    owner.dapps(&chain, servers[0]);
    let dapp_base = servers[0].rpc("scs_getDappList", json!([chain]))[0].clone();

    // approve, buyMintToken(uint256)
    owner.transact(
        &token,
        "095ea7b3",
        &[Argument::Account(chain.clone()), Argument::Number(5 * one)],
        0,
    );
    owner.transact(&chain, "beba618e", &[Argument::Number(5 * one)], 0);
    let bought = 5 * RATE * 10_u128.pow(18);
    let balance = |server: usize| quantity(&servers[server].rpc("scs_getBalance", json!([chain, account])));
    wait_within(FLUSH_PATIENCE, "the deposit", || {
        (balance(1) == bought).then_some(())
    });
    let gold = || owner.number_of(&token, "70a08231", &account);
    let left = gold();

    // redeemFromMicroChain
    let back = 2 * RATE * 10_u128.pow(18);
    let call = format!("{}89739c5b", dapp_base.as_str().expect("an address"));
    works(
        servers[2],
        &chain,
        &owner.send_to_chain(&chain, 3, 1, back, &call),
    );
    assert_eq!(balance(2), bought - back);
    wait_within(FLUSH_PATIENCE, "the payment", || (gold() > left).then_some(()));
    assert_eq!(gold(), left + 2 * one);
    let exchange = wait_within(FLUSH_PATIENCE, "the lists", || {
        let found = servers[0].rpc(
            "scs_getExchangeByAddress",
            json!([chain, account, 0, 9, 0, 9, 0, 9, 0, 9]),
        );
        (found["WithdrawingRecordCount"] == 0).then_some(found)
    });
    assert_eq!(
        (&exchange["DepositRecordCount"], &exchange["WithdrawRecordCount"]),
        (&json!(1), &json!(1))
    );
    let amount: &Value = &exchange["WithdrawRecords"][1]["WithdrawAmt"];
    assert_eq!(quantity(amount), back);
}
