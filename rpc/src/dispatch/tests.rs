use std::time::Duration;

use futures_util::future::BoxFuture;

use super::run::INLINE_TIME_MAX;
use super::*;
use crate::caller::{HangUp, remote_client};
use crate::limits::REQUEST_TIMEOUT;
use crate::table::InlineError;
use crate::types::Integer;
use crate::wire_type::{Described, WireType};

fn sleep_ms((): &(), (ms,): (Integer,)) -> RpcResult<Integer> {
    std::thread::sleep(Duration::from_millis(ms.0));
    Ok(ms)
}

/// Whether this thread belongs to the blocking pool.
fn is_pool() -> bool {
    let thread = std::thread::current();
    thread.name().is_some_and(|name| name.starts_with("pool"))
}

/// `mc_panic` and `mc_blockingPanic`.
fn panic((): &()) -> RpcResult<()> {
    panic!("as asked")
}

/// The length of a text, and whether a thread of the pool has computed it.
#[derive(serde::Serialize)]
struct LengthAndThread(usize, bool);

impl Described for LengthAndThread {
    const TYPE: WireType = WireType::Named("LengthAndThread");
}

fn echo((): &(), (text,): (Option<String>,)) -> RpcResult<Option<String>> {
    Ok(text)
}

fn length((): &(), (text,): (String,)) -> RpcResult<LengthAndThread> {
    Ok(LengthAndThread(text.len(), is_pool()))
}

fn spin((): &(), params: (Integer,)) -> RpcResult<bool> {
    sleep_ms(&(), params)?;
    Ok(is_pool())
}

fn brief((): &(), params: (Integer,), _: ReadScope) -> Result<bool, InlineError> {
    sleep_ms(&(), params)?;
    Ok(is_pool())
}

async fn wait_ms(_: Arc<()>, (ms,): (Integer,)) -> RpcResult<&'static str> {
    tokio::time::sleep(Duration::from_millis(ms.0)).await;
    Ok("waited")
}

fn nothing((): &()) -> RpcResult<()> {
    Ok(())
}

/// `mc_endless`: works until nobody waits for it.
fn endless((): &()) -> RpcResult<()> {
    let limit = crate::budget::query_limit(Duration::MAX);
    loop {
        limit.check().map_err(RpcError::refused_by)?;
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn methods() -> Vec<Method<()>> {
    vec![
        Method::inline("mc_echo", ["text"], echo),
        Method::inline("mc_panic", [], panic),
        Method::blocking("mc_sleep", ["ms"], sleep_ms),
        Method::heavy("mc_work", ["ms"], sleep_ms),
        Method::blocking("mc_blockingPanic", [], panic),
        Method::sized("mc_length", ["text"], length),
        Method::inline("mc_spin", ["ms"], spin),
        Method::brief("mc_brief", ["ms"], brief),
        Method::waiting("mc_wait", ["ms"], wait_ms),
        Method::heavy("mc_endless", [], endless),
        Method::inline("debug_hidden", [], nothing),
    ]
}

/// Sends each body to one dispatcher and compares the whole answer.
#[track_caller]
fn check(cases: &[(&str, &str)]) {
    check_within(REQUEST_TIMEOUT, cases);
}

#[track_caller]
fn check_within(request_timeout: Duration, cases: &[(&str, &str)]) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name_fn(|| "pool".into())
        .enable_time()
        .build()
        .unwrap();
    let limits = Limits {
        request_timeout,
        response_len_max: 100,
        heavy_calls_max: 1,
        ..Limits::default()
    };
    let rpc = Rpc::new(Arc::new(()), methods(), limits).unwrap();
    let dispatcher = rpc.dispatcher(&Modules::default());
    for (body, expected) in cases {
        let body = body
            .replace('\'', "\"")
            .replace("{m:", "{\"jsonrpc\":\"2.0\",\"method\":");
        let answer = runtime.block_on(dispatcher.handle(Bytes::from(body.clone())));
        let answer = answer
            .map(|answer| String::from_utf8(answer).unwrap())
            .unwrap_or_default();
        let answer = answer.replace("\"jsonrpc\":\"2.0\",", "").replace('"', "'");
        assert_eq!(answer, *expected, "{body}");
    }
    runtime.shutdown_background();
}

#[test]
fn names() {
    check(&[
        ("{m:'mc_echo','params':['a'],'id':1}", "{'id':1,'result':'a'}"),
        ("{m:'eth_echo','id':1}", "{'id':1,'result':null}"),
        ("[{m:'eth_echo','id':1}]", "[{'id':1,'result':null}]"),
        (
            "{m:'debug_hidden','id':1}",
            "{'id':1,'error':{'code':-32601,'message':'the method debug_hidden does not exist/is not available'}}",
        ),
        (
            "{m:'rpc_modules','id':1}",
            "{'id':1,'result':{'mc':'1.0','rpc':'1.0'}}",
        ),
        ("{m:'mc_echo'}", ""),
        ("{m:'nothing'}", ""),
    ]);
}

#[test]
fn panics_stay_in_their_call() {
    let failed = "'error':{'code':-32603,'message':'internal error'}";
    check(&[(
        "[{m:'mc_panic','id':1},{m:'mc_blockingPanic','id':2},{m:'mc_echo','id':3}]",
        &format!("[{{'id':1,{failed}}},{{'id':2,{failed}}},{{'id':3,'result':null}}]"),
    )]);
}

#[test]
fn batches_keep_their_order() {
    check(&[(
        "[{m:'mc_sleep','params':[20],'id':1},{m:'mc_sleep','params':[1],'id':2},{m:'mc_sleep','params':[0]},\
         {m:'mc_wait','params':[10],'id':3},{m:'mc_work','params':[2],'id':4},5]",
        "[{'id':1,'result':20},{'id':2,'result':1},{'id':3,'result':'waited'},{'id':4,'result':2},\
         {'id':null,'error':{'code':-32600,'message':'invalid request: got a number, expected an object'}}]",
    )]);
}

#[test]
fn time_runs_out() {
    let late = "'error':{'code':-32000,'message':'the request timed out'}";
    let skipped = "'error':{'code':-32000,'message':'not run: the request timed out'}";
    check_within(
        Duration::from_millis(400),
        &[
            (
                "{m:'mc_wait','params':[5000],'id':1}",
                &format!("{{'id':1,{late}}}"),
            ),
            (
                "{m:'mc_sleep','params':[600],'id':1}",
                &format!("{{'id':1,{late}}}"),
            ),
            (
                "[{m:'mc_sleep','params':[1],'id':1},{m:'mc_sleep','params':[900],'id':2},{m:'mc_echo','id':3}]",
                &format!("[{{'id':1,'result':1}},{{'id':2,{late}}},{{'id':3,{skipped}}}]"),
            ),
            // There is one permit for heavy calls. The call that timed out still holds it.
            (
                "{m:'mc_work','params':[1200],'id':1}",
                &format!("{{'id':1,{late}}}"),
            ),
            (
                "{m:'mc_work','params':[1],'id':1}",
                "{'id':1,'error':{'code':-32000,'message':'not run: the node is busy'}}",
            ),
            ("{m:'mc_sleep','params':[1],'id':1}", "{'id':1,'result':1}"),
        ],
    );
}

#[test]
fn bytes_run_out() {
    let text = "x".repeat(60);
    let long = "'error':{'code':-32000,'message':'the response is longer than 100 bytes'}";
    let skipped = "'error':{'code':-32000,'message':'not run: the response is longer than 100 bytes'}";
    let call = |id| format!("{{m:'mc_echo','params':['{text}'],'id':{id}}}");
    check(&[(
        &format!("[{},{},{}]", call(1), call(2), call(3)),
        &format!("[{{'id':1,'result':'{text}'}},{{'id':2,{long}}},{{'id':3,{skipped}}}]"),
    )]);
}

#[test]
fn long_parameters_leave_the_network_thread() {
    let text = "x".repeat(SHORT_PARAMS_LEN_MAX);
    check(&[
        (
            "{m:'mc_length','params':['x'],'id':1}",
            "{'id':1,'result':[1,false]}",
        ),
        (
            &format!("{{m:'mc_length','params':['{text}'],'id':1}}"),
            &format!("{{'id':1,'result':[{},true]}}", text.len()),
        ),
    ]);
}

#[test]
fn long_batches_leave_the_network_thread() {
    check(&[(
        "[{m:'mc_spin','params':[5],'id':1},{m:'mc_brief','params':[0],'id':2},5,{m:'mc_spin','params':[0],'id':3}]",
        "[{'id':1,'result':false},{'id':2,'result':true},\
         {'id':null,'error':{'code':-32600,'message':'invalid request: got a number, expected an object'}},\
         {'id':3,'result':true}]",
    )]);
}

#[test]
fn others_have_their_turn_within_a_batch() {
    use std::sync::atomic::{AtomicBool, Ordering};

    // A method about subscriptions cannot change threads.
    fn had_turn(turn: &AtomicBool, _: &MessageSubscriptions, (): (), _: NameStyle) -> RpcResult<bool> {
        std::thread::sleep(2 * INLINE_TIME_MAX);
        Ok(turn.load(Ordering::Relaxed))
    }
    let row = Method::subscribing("mc_turn", [], had_turn);
    let turn = Arc::new(AtomicBool::new(false));
    let rpc = Rpc::new(Arc::clone(&turn), vec![row], Limits::default()).unwrap();
    let dispatcher = rpc.dispatcher(&Modules::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"mc_turn"}"#;
    let got = runtime.block_on(async {
        tokio::spawn(async move { turn.store(true, Ordering::Relaxed) });
        let body = Bytes::from(format!("[{call},{call}]"));
        let subscriptions = crate::subscriptions::Subscriptions::new(1).of_message();
        let caller = RpcCaller::local(dispatcher.traffic());
        let answer = dispatcher.answer(body, &caller, Some(&subscriptions)).await;
        answer.expect("memory").map(|text| text.to_vec())
    });
    let answer = |result| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    let want = format!("[{},{}]", answer(false), answer(true));
    assert_eq!(String::from_utf8(got.unwrap()).unwrap(), want);
}

/// Hangs up when it is told to.
#[derive(Default)]
struct TestHangUp(tokio::sync::Notify);

impl HangUp for TestHangUp {
    fn wait(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.notified())
    }
}

/// A dispatcher with one permit for calls that execute code.
fn one_permit(request_timeout: Duration) -> Arc<Dispatcher<()>> {
    let limits = Limits {
        request_timeout,
        heavy_calls_max: 1,
        ..Limits::default()
    };
    let rpc = Rpc::new(Arc::new(()), methods(), limits).unwrap();
    Arc::new(rpc.dispatcher(&Modules::default()))
}

fn call(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

/// The answer to `body` on a new connection of client `last`.
async fn ask(dispatcher: &Dispatcher<()>, last: u8, body: String) -> String {
    let caller = RpcCaller::remote(remote_client(last), dispatcher.traffic());
    let answer = dispatcher.answer(body.into(), &caller, None).await;
    let text = answer.expect("memory").expect("an answer").to_vec();
    String::from_utf8(text).unwrap()
}

/// Checks that the permit is free soon.
async fn check_free(dispatcher: &Dispatcher<()>) {
    let answer = tokio::time::timeout(PATIENCE, ask(dispatcher, 9, call("mc_work", "[1]"))).await;
    let answer = answer.expect("the permit is given back");
    assert!(answer.contains("\"result\":1"), "{answer}");
}

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn work_stops_when_its_time_is_over() {
    let dispatcher = one_permit(Duration::from_millis(200));
    let late = ask(&dispatcher, 1, call("mc_endless", "[]")).await;
    assert!(late.contains("the request timed out"), "{late}");
    check_free(&dispatcher).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_stops_when_the_client_hangs_up() {
    let dispatcher = one_permit(REQUEST_TIMEOUT);
    let hang_up = Arc::new(TestHangUp::default());
    let caller = RpcCaller::remote(remote_client(1), dispatcher.traffic()).with_hang_up(hang_up.clone());
    let own = Arc::clone(&dispatcher);
    let batch = format!("[{},{}]", call("mc_endless", "[]"), call("mc_endless", "[]"));
    let asked = tokio::spawn(async move { own.answer(batch.into(), &caller, None).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!asked.is_finished());
    hang_up.0.notify_one();
    let answer = asked.await.unwrap().expect("memory").expect("an answer").to_vec();
    let answer = String::from_utf8(answer).unwrap();
    assert_eq!(answer.matches("the client hung up before").count(), 2, "{answer}");
    check_free(&dispatcher).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_stops_when_nobody_waits() {
    let dispatcher = one_permit(REQUEST_TIMEOUT);
    for _ in 0..3 {
        let own = Arc::clone(&dispatcher);
        let asked = tokio::spawn(async move { ask(&own, 1, call("mc_endless", "[]")).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!asked.is_finished());
        asked.abort();
    }
    check_free(&dispatcher).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_gives_its_permit_back_when_others_wait() {
    let dispatcher = one_permit(REQUEST_TIMEOUT);
    let batch = format!("[{}]", vec![call("mc_work", "[40]"); 20].join(","));
    let own = Arc::clone(&dispatcher);
    let long = tokio::spawn(async move { ask(&own, 1, batch).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    for last in 2..6 {
        let short = ask(&dispatcher, last, call("mc_work", "[1]")).await;
        assert!(short.contains("\"result\":1"), "{short}");
    }
    assert!(!long.is_finished(), "the batch has not run to its end first");
    assert_eq!(long.await.unwrap().matches("\"result\":40").count(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_client_do_not_fill_the_line() {
    let limits = Limits {
        heavy_calls_max: 1,
        waiting_calls_max: 4,
        ..Limits::default()
    };
    let rpc = Rpc::new(Arc::new(()), methods(), limits).unwrap();
    let dispatcher = Arc::new(rpc.dispatcher(&Modules::default()));
    let flood: Vec<_> = (0..6)
        .map(|_| {
            let own = Arc::clone(&dispatcher);
            tokio::spawn(async move { ask(&own, 1, call("mc_work", "[300]")).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let other = ask(&dispatcher, 2, call("mc_work", "[1]")).await;
    assert!(other.contains("\"result\":1"), "{other}");
    let mut refused = 0;
    for call in flood {
        let answer = call.await.unwrap();
        let expected = "not run: 2 calls of this client wait already, and no more may wait";
        refused += usize::from(answer.contains(expected));
    }
    assert_eq!(refused, 3, "one runs and two wait");
}

#[tokio::test]
async fn answers_share_the_description() {
    let dispatcher = one_permit(REQUEST_TIMEOUT);
    let caller = RpcCaller::remote(remote_client(1), dispatcher.traffic());
    let batch = format!("[{}]", vec![call("rpc.discover", "[]"); 500].join(","));
    let answer = dispatcher.answer(batch.into(), &caller, None).await;
    let answer = answer.expect("memory").expect("an answer");
    let used = dispatcher.traffic().used();
    assert!(answer.len() > 5 << 20, "{} bytes", answer.len());
    assert!(used < 1 << 20, "{used} bytes are reserved");
    let answer: Vec<serde_json::Value> = serde_json::from_slice(&answer.to_vec()).unwrap();
    assert!(
        answer
            .iter()
            .all(|response| response["result"]["openrpc"].is_string())
    );
}

#[tokio::test]
async fn a_batch_ends_where_memory_ends() {
    let limits = Limits {
        traffic_len_max: 1 << 20,
        ..Limits::default()
    };
    let rpc = Rpc::new(Arc::new(()), methods(), limits).unwrap();
    let dispatcher = rpc.dispatcher(&Modules::default());
    let caller = RpcCaller::remote(remote_client(1), dispatcher.traffic());
    let text = "x".repeat(3000);
    for method in ["mc_echo", "mc_length", "mc_wait"] {
        let params = match method {
            "mc_wait" => "[0]".to_owned(),
            _ => format!("[\"{text}\"]"),
        };
        let batch = format!("[{}]", vec![call(method, &params); 400].join(","));
        let answer = dispatcher.answer(batch.into(), &caller, None).await;
        let answer = answer.expect("memory").expect("an answer");
        let used = dispatcher.traffic().used();
        assert!(used <= 1 << 19, "{method}: {used} bytes are reserved");
        assert!(
            used + (64 << 10) >= answer.len(),
            "{method}: {used} for {} bytes",
            answer.len()
        );
        let answer: Vec<serde_json::Value> = serde_json::from_slice(&answer.to_vec()).unwrap();
        let refused = answer.iter().filter(|response| response["error"].is_object());
        assert_eq!(refused.count() > 0, method == "mc_echo", "{method}");
    }
    assert_eq!(dispatcher.traffic().used(), 0);
}

#[test]
fn tables_are_checked() {
    let row = |name| Method::inline(name, [], nothing);
    let check = |rows, error| match Rpc::new(Arc::new(()), rows, Limits::default()) {
        Ok(_) => panic!("want {error}"),
        Err(got) => assert_eq!(got, error),
    };
    check(
        vec![row("mc_a"), row("net_b"), row("mc_a")],
        MethodTableError::DuplicateMethod("mc_a"),
    );
    check(vec![row("foo_a")], MethodTableError::UnknownModule("foo_a"));
}
