//! The page of the dashboard in a real browser. Skipped where there is none.
//!
//! `DASHBOARD_PICTURES` names a folder for pictures of the page, to be looked at by people.

use std::path::PathBuf;

use e2e::browser::Browser;
use e2e::{MinerProcess, Vnode};
use serde_json::{Value, json};

/// A worker whose name would do harm if it were read as HTML.
const BAD_NAME: &str = "<img/src=x/onerror=document.title='broken'>";

/// The text of the page.
const TEXT: &str = "(document.body?.innerText ?? '')";

fn picture(browser: &mut Browser, name: &str) {
    if let Some(folder) = std::env::var_os("DASHBOARD_PICTURES") {
        browser.save_picture(&PathBuf::from(folder).join(format!("{name}.png")));
    }
}

/// Fails if the page is wider than the window, which a reader would have to scroll.
#[track_caller]
fn check_width(browser: &mut Browser, width: u32) {
    let got = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]");
    assert!(
        got[0].as_u64() <= Some(u64::from(width)) && got[1] == json!(width),
        "width: got {got}, expected at most {width}"
    );
}

/// An expression that is true when the page has all of `words`.
fn has(words: &[&str]) -> String {
    format!("{}.every((word) => {TEXT}.includes(word))", json!(words))
}

/// Compares texts that the scripts of the page make with what readers expect.
#[track_caller]
fn check_format(browser: &mut Browser) {
    for (call, expected) in [
        ("rate(0)", "0 H/s"),
        ("rate(999.96)", "1.00 kH/s"),
        ("rate(98_100_000)", "98.10 MH/s"),
        ("rate(318_900_000)", "318.9 MH/s"),
        ("rate(NaN)", "– "),
        ("span(0.4)", "< 1 s"),
        ("span(59)", "59 s"),
        ("span(125)", "2 min 5 s"),
        ("span(86_400 * 3.5)", "3 d 12 h"),
        ("span(Infinity)", "unknown"),
        ("coins('2000000000000000000')", "2"),
        ("coins('1234567000000000000000001')", "1,234,567"),
        ("coins('1')", "below 0.000001"),
        ("money('1000000000000000000')", "1 coin"),
        ("money('1')", "0.000000000000000001 coins"),
        ("price('0x4a817c800')", "20 Gsha"),
        ("price('5')", "5 sha"),
        ("percent(1, 3)", "33 %"),
        ("percent(1, 0)", "–"),
        ("percent(1, 9000)", "< 0.1 %"),
        (
            "short('0x0123456789abcdef0123456789abcdef01234567')",
            "0x012345…234567",
        ),
        ("large('4000000000')", "4.00 G"),
    ] {
        let got = browser.evaluate(&format!("import('/format.js').then((format) => format.{call})"));
        let got = got.as_str().unwrap_or_default().replace('\u{a0}', " ");
        assert_eq!(got, expected, "{call}");
    }
}

/// The account that gets the tokens.
const HOLDER: &str = "4444444444444444444444444444444444444444";

/// The code of a token: each call logs a transfer of 7 from nobody to [`HOLDER`], calls that
/// account, and returns 7.
fn token() -> String {
    let topic = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
    let call = format!("6000600060006000600073{HOLDER}61fffff150");
    format!("600760005273{HOLDER}60007f{topic}60206000a3{call}60206000f3")
}

/// A contract: its calls and logs are read, its code is compared, and its tokens are shown.
fn check_contract(browser: &mut Browser, node: &Vnode, url: &str) {
    let from = &node.accounts()[1];
    let code = token();
    let length = code.len() / 2;
    let creation = format!("0x60{length:02x}600c60003960{length:02x}6000f3{code}");
    let send = |mut transaction: Value| {
        transaction["from"] = json!(from);
        transaction["gasPrice"] = json!("0x4a817c800");
        node.receipt(&node.send(transaction))
    };
    let contract = send(json!({"data": creation, "gas": "0x7a120"}));
    let contract = contract["contractAddress"].as_str().expect("a contract");
    let data = format!("0xa9059cbb{HOLDER:0>64}{:064x}", 7);
    let receipt = send(json!({"to": contract, "data": data, "gas": "0x7a120"}));
    let hash = receipt["transactionHash"].as_str().expect("a hash");
    browser.open(&format!("{url}#/tx/{hash}"));
    browser.wait_for(&has(&[
        "transfer(address,uint256)",
        "Token transfers (1)",
        "Calls inside (1)",
        "Transfer(address,address,uint256)",
    ]));
    check_width(browser, 360);
    picture(browser, "token-transfer");
    browser.open(&format!("{url}#/address/{contract}"));
    browser.wait_for(&has(&["not compared in this browser yet"]));
    let give = |browser: &mut Browser, field: &str, text: &str| {
        browser.evaluate(&format!(
            "{{ const field = document.querySelector('#{field}'); field.closest('details').open = true; \
             field.value = {}; field.parentElement.querySelector('button').click(); }}",
            json!(text)
        ));
    };
    give(browser, "abi", "[]");
    browser.wait_for(&has(&["got no functions or events"]));
    let abi = json!([{"type": "function", "name": "transfer", "inputs": [
        {"type": "address", "name": "whom"}, {"type": "uint256", "name": "much"},
    ]}]);
    give(browser, "abi", &abi.to_string());
    browser.wait_for(&has(&["kept in this browser: 1"]));
    let other = json!({"contractName": "Other", "deployedBytecode": "0x6001"});
    give(browser, "compiler-output", &other.to_string());
    browser.wait_for(&has(&["none of these contracts has the code"]));
    let output =
        json!({"contracts": {"token.sol": {"Token": {"evm": {"deployedBytecode": {"object": code}}}}}});
    give(browser, "compiler-output", &output.to_string());
    browser.wait_for(&has(&["verified in this browser: Token"]));
    check_width(browser, 360);
    browser.set_view(1280, 900, true);
    picture(browser, "contract");
    browser.open(&format!("{url}#/tx/{hash}"));
    browser.wait_for(&has(&["whom (address)"]));
    browser.set_view(360, 780, false);
    // The index follows the head a moment later.
    let holder = format!("0x{HOLDER}");
    e2e::wait_for("the index by address", || {
        let path = format!("/explorer/account/{holder}");
        let answer = e2e::http::get(node.dashboard(), &path).expect("an answer");
        let account: Value = serde_json::from_str(&answer.body).expect("JSON");
        let tokens = account["tokens"].as_array();
        tokens.is_some_and(|tokens| !tokens.is_empty()).then_some(())
    });
    browser.open(&format!("{url}#/address/{holder}"));
    browser.wait_for(&has(&["Tokens"]));
    picture(browser, "tokens");
}

#[test]
fn the_page_works_in_a_browser() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let options = [
        "--mine",
        "--minerthreads",
        "1",
        "--extradata",
        "<b>bold</b>",
        "--stratum",
        "--stratumport",
        "0",
        "--stratum.difficulty",
        "500",
        "--index",
        "address",
        "--dashboard",
        "127.0.0.1:0",
    ];
    let node = Vnode::dev(options);
    let accounts = node.accounts();
    let hash = node.send(json!({
        "from": accounts[1], "to": accounts[2], "value": "0xde0b6b3a7640000", "gasPrice": "0x4a817c800",
    }));
    let stratum = format!("stratum+tcp://{}", node.stratum());
    let miner = MinerProcess::start(["stratum", &stratum, "-u", BAD_NAME, "--dashboard", "127.0.0.1:0"]);
    let receipt = node.receipt(&hash);
    let height = e2e::quantity(&receipt["blockNumber"]).to_string();
    let url = format!("http://{}/", node.dashboard());

    // The overview, in both colours and on a narrow screen.
    browser.set_view(1280, 900, false);
    browser.open(&url);
    browser.wait_for(&has(&[
        "cpu",
        "Last blocks",
        "Rewards of the last day",
        "this node: cpu",
    ]));
    browser.wait_for(&has(&["<b>bold</b>", BAD_NAME]));
    check_width(&mut browser, 1280);
    browser.wait_for("document.querySelector('.chart .line')?.getAttribute('d').length > 0");
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = browser.evaluate(ground);
    picture(&mut browser, "light");
    browser.set_view(1280, 900, true);
    assert_ne!(browser.evaluate(ground), light, "dark and light are the same");
    picture(&mut browser, "dark");
    browser.set_view(360, 780, true);
    browser.wait_for("document.querySelector('.chart').viewBox.baseVal.width < 360");
    check_width(&mut browser, 360);
    picture(&mut browser, "narrow");

    check_format(&mut browser);

    // The figures follow the chain without a reload.
    let head = node.head();
    browser.wait_for(&format!(
        "Number(document.querySelector('#chain-title').closest('section').querySelector('dd a').innerText) > {head}"
    ));

    // The keyboard alone: the first stop skips the head, the chart can be read point by point, and
    // the slash leads to the search.
    browser.set_view(1280, 900, false);
    browser.evaluate("document.activeElement?.blur()");
    browser.press("Tab");
    assert_eq!(browser.evaluate("document.activeElement.id"), "skip");
    browser.evaluate("document.querySelector('.chart').focus()");
    browser.press("ArrowLeft");
    browser.wait_for("/H\\/s at /.test(document.querySelector('.readout').innerText)");
    browser.press("/");
    browser.wait_for("document.activeElement.id === 'search'");
    browser.type_text(&hash);
    browser.press("Enter");
    browser.wait_for(&has(&["succeeded", &hash, "1 coin", &accounts[1]]));
    assert_eq!(browser.evaluate("document.activeElement.tagName"), "H2");
    picture(&mut browser, "transaction");
    browser.evaluate("[...document.querySelectorAll('#explorer dd a')].find((one) => one.hash.startsWith('#/block/')).click()");
    browser.wait_for(&has(&[
        &format!("Block {height}"),
        "Roots and seal",
        "<b>bold</b>",
    ]));
    picture(&mut browser, "block");
    browser.open(&format!("{url}#/account/{}", accounts[2]));
    browser.wait_for(&has(&["1,000,001 coins", "Transactions"]));
    browser.set_view(360, 780, false);
    check_width(&mut browser, 360);
    picture(&mut browser, "account");
    check_contract(&mut browser, &node, &url);
    for (name, words) in [
        ("block/99999999", "there is no block"),
        ("transaction/0x12", "invalid argument 0"),
        ("nothing/7", "there is no page nothing/7"),
    ] {
        browser.open(&format!("{url}#/{name}"));
        browser.wait_for(&has(&["Not found", words]));
    }
    browser.evaluate(
        "document.querySelector('#search').value = 'seven'; document.querySelector('.search button').click()",
    );
    browser.wait_for(&has(&["got seven, expected a block number"]));
    let faults: Vec<_> = browser.take_faults();
    // The browser reports the answers 404 and 400, which were asked for.
    let faults: Vec<_> = faults
        .iter()
        .filter(|fault| !fault.contains("/explorer/"))
        .collect();
    assert_eq!(faults, Vec::<&String>::new());

    // The standalone miner has the same page, without the chain.
    let url = format!("http://{}/", miner.dashboard());
    browser.set_view(1280, 900, true);
    browser.open(&url);
    browser.wait_for(&has(&[
        "miner",
        "Pool",
        "gives work",
        "Expected time per solution",
    ]));
    assert_eq!(
        browser.evaluate("document.querySelector('#pages').hidden"),
        Value::Bool(true)
    );
    picture(&mut browser, "miner");
    browser.set_view(360, 780, false);
    check_width(&mut browser, 360);
    picture(&mut browser, "miner-narrow");
    assert_eq!(browser.take_faults(), Vec::<String>::new());
    assert!(
        browser.evaluate("document.title !== 'broken'") == true,
        "a name was read as HTML"
    );

    // A program that has ended is told, and the last figures stay.
    drop(miner);
    browser.wait_for(&has(&["No answer from the program", "Devices"]));
    picture(&mut browser, "gone");
}
