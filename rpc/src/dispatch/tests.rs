use std::time::Duration;

use super::*;
use crate::limits::REQUEST_TIMEOUT;
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

    // A session method cannot change threads.
    fn had_turn(turn: &AtomicBool, _: &RpcSession, (): (), _: NameStyle) -> RpcResult<bool> {
        std::thread::sleep(2 * INLINE_TIME_MAX);
        Ok(turn.load(Ordering::Relaxed))
    }
    let row = Method::session("mc_turn", [], had_turn);
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
        let session = crate::subscriptions::Subscriptions::new(1).session();
        dispatcher
            .handle_in(body, ClientId::Local(0), Some(&session))
            .await
    });
    let answer = |result| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    let want = format!("[{},{}]", answer(false), answer(true));
    assert_eq!(String::from_utf8(got.unwrap()).unwrap(), want);
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
