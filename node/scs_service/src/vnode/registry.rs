//! The SCSs that are connected, and the stream that each id has.
//!
//! | the id is on | a handshake with proof | a handshake without |
//! |---|---|---|
//! | no connection | takes it | takes it |
//! | the same connection | takes it | takes it, if it has no proof there |
//! | another one, with proof | takes it | is refused |
//! | another one, without | takes it | is refused |
//!
//! So nobody takes the place of an SCS by its name alone. One that proves nothing gets its place
//! back when its old connection has ended, which the server sees by pings of HTTP/2. If it had a
//! role in a MicroChain, its place is kept for its address for [`HOME_KEPT`].
//!
//! An id costs nothing, so their number is bounded, in all and for each address. If all places are
//! taken, the address with the most ids loses its newest one, an unproven one without a role first,
//! to an address that has at least two fewer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use daemon::ClientAddress;
use parking_lot::Mutex;
use tonic::Status;

use super::client_share::ClientShare;
use super::limits::PING_REPEAT;
use super::queue::PushQueue;
use crate::message::ScsId;
use crate::proto::ScsPushMsg;

/// The shortest time between two warnings about refused handshakes.
const WARN_INTERVAL: Duration = Duration::from_secs(10);
/// The place of an SCS that proves nothing and had a role is kept for its address for so long after
/// its connection has ended: for a restart, or for a machine that is off for a while.
const HOME_KEPT: Duration = Duration::from_secs(60 * 60);
/// The most places that are kept so.
const HOMES_MAX: usize = 4096;

/// An SCS that has shaken hands.
#[derive(Debug)]
pub(super) struct ConnectedScs {
    pub(super) id: ScsId,
    /// The id in lower case, as it stands in the requestids of its messages.
    pub(super) id_text: String,
    /// The messages that wait to be sent to it.
    pub(super) queue: Arc<PushQueue>,
    client: Arc<ClientShare>,
    /// The number of the connection.
    connection: u64,
    /// The id was proven.
    is_proven: bool,
    /// The number of the handshake.
    number: u64,
    /// The SCS has had a role in a MicroChain.
    has_role: AtomicBool,
    /// The last ping; `None` before the first one.
    pinged: Mutex<Option<LastPing>>,
}

/// A ping that was sent.
#[derive(Clone, Copy, Debug)]
struct LastPing {
    /// The highest head that was told.
    head: u64,
    at: Instant,
}

/// A handshake that asks for the place of an id.
pub(super) struct Applicant<'a> {
    pub(super) id: ScsId,
    pub(super) is_proven: bool,
    /// The number of the connection.
    pub(super) connection: u64,
    pub(super) client: &'a Arc<ClientShare>,
    /// The messages of the stream.
    pub(super) queue: &'a Arc<PushQueue>,
}

impl ConnectedScs {
    /// Gives the place to `applicant`, if it may have it.
    fn make_way(&self, applicant: &Applicant<'_>, warned_at: &mut Option<Instant>) -> Result<(), Status> {
        let is_own = self.connection == applicant.connection && applicant.is_proven >= self.is_proven;
        if is_own || !self.queue.is_open() {
            return Ok(());
        }
        let (id, holder, other) = (self.id, self.client.address, applicant.client.address);
        if !applicant.is_proven {
            if warned_at.is_none_or(|at| at.elapsed() >= WARN_INTERVAL) {
                *warned_at = Some(Instant::now());
                tracing::warn!(
                    scs = %id, %holder, refused = %other,
                    "a second connection claims to be an SCS that is connected; it was refused"
                );
            }
            return Err(Status::already_exists(format!(
                "SCS {id} is connected, and this handshake proves nothing"
            )));
        }
        if !self.is_proven {
            tracing::warn!(
                scs = %id, %holder, proven = %other,
                "a connection without proof has lost its place to one that has proven to be this SCS"
            );
        }
        self.queue
            .fail(Status::aborted("another connection has proven to be this SCS"));
        Ok(())
    }

    /// Notes that the SCS has a role in a MicroChain.
    pub(super) fn note_role(&self) {
        self.has_role.store(true, Ordering::Relaxed);
    }

    /// The head of the ping that is due: the first one, one with a higher head, or the old one
    /// again after a while.
    pub(super) fn take_ping(&self, head: u64, now: Instant) -> Option<u64> {
        let pinged = &mut *self.pinged.lock();
        let head = match *pinged {
            Some(last) if head <= last.head => {
                if now.saturating_duration_since(last.at) < PING_REPEAT {
                    return None;
                }
                last.head
            }
            _ => head,
        };
        *pinged = Some(LastPing { head, at: now });
        Some(head)
    }
}

/// The connected SCSs.
#[derive(Debug)]
pub(super) struct ScsRegistry {
    ids_max: usize,
    address_ids_max: usize,
    state: Mutex<RegistryState>,
}

#[derive(Debug, Default)]
struct RegistryState {
    connected: HashMap<ScsId, Arc<ConnectedScs>>,
    next_number: u64,
    /// The time of the last warning about a refused handshake.
    warned_at: Option<Instant>,
    /// The addresses of SCSs that are away, proved nothing and had a role; and until when their
    /// places are kept.
    homes: HashMap<ScsId, (ClientAddress, Instant)>,
}

/// The place of an SCS. Dropping it takes the SCS out, unless its id is on another stream now.
#[derive(Debug)]
pub(super) struct ScsRegistration {
    registry: Arc<ScsRegistry>,
    scs: Arc<ConnectedScs>,
}

impl ScsRegistry {
    pub(super) fn new(ids_max: usize, address_ids_max: usize) -> Self {
        Self {
            ids_max,
            address_ids_max,
            state: Mutex::default(),
        }
    }

    /// Registers an SCS on the stream of `applicant`. From now on its messages go there, after
    /// `answer`.
    ///
    /// # Errors
    /// A status if the id has a place on another connection, or there are too many SCSs.
    pub(super) fn register(
        self: &Arc<Self>,
        applicant: Applicant<'_>,
        answer: ScsPushMsg,
    ) -> Result<ScsRegistration, Status> {
        let Applicant {
            id, queue, client, ..
        } = applicant;
        let state = &mut *self.state.lock();
        if let Some(holder) = state.connected.get(&id) {
            holder.make_way(&applicant, &mut state.warned_at)?;
        } else {
            state.check_home(&applicant, Instant::now())?;
            let of_client = state.count_of(client);
            if of_client >= self.address_ids_max {
                return Err(Status::resource_exhausted(format!(
                    "SCSs of this address: got one more than {of_client}, expected at most {}",
                    self.address_ids_max
                )));
            }
            if state.connected.len() >= self.ids_max && !state.make_room(of_client) {
                return Err(Status::resource_exhausted(format!(
                    "SCSs: got one more than {}, expected at most {}",
                    state.connected.len(),
                    self.ids_max
                )));
            }
        }
        let number = state.next_number;
        state.next_number += 1;
        let scs = Arc::new(ConnectedScs {
            id,
            id_text: id.to_string(),
            queue: Arc::clone(queue),
            client: Arc::clone(client),
            connection: applicant.connection,
            is_proven: applicant.is_proven,
            number,
            has_role: AtomicBool::new(false),
            pinged: Mutex::default(),
        });
        queue.push(answer, false);
        state.homes.remove(&id);
        state.connected.insert(id, Arc::clone(&scs));
        client.add_registered();
        Ok(ScsRegistration {
            registry: Arc::clone(self),
            scs,
        })
    }

    /// The connected SCSs, in no order.
    pub(super) fn all(&self) -> Vec<Arc<ConnectedScs>> {
        self.state.lock().connected.values().cloned().collect()
    }

    /// The SCS with this id.
    pub(super) fn get(&self, id: &ScsId) -> Option<Arc<ConnectedScs>> {
        self.state.lock().connected.get(id).cloned()
    }

    /// The number of handshakes of an SCS so far.
    pub(super) fn registrations(&self) -> u64 {
        self.state.lock().next_number
    }

    /// The number of connected SCSs.
    pub(super) fn len(&self) -> usize {
        self.state.lock().connected.len()
    }
}

impl RegistryState {
    /// Refuses an applicant without proof whose id has its place at another address.
    fn check_home(&self, applicant: &Applicant<'_>, now: Instant) -> Result<(), Status> {
        let (id, address) = (applicant.id, applicant.client.address);
        match self.homes.get(&id) {
            Some((home, until)) if !applicant.is_proven && *home != address && now < *until => {
                tracing::warn!(
                    scs = %id, %home, refused = %address,
                    "a connection without proof claims to be an SCS that is away; it was refused"
                );
                Err(Status::already_exists(format!(
                    "SCS {id} was at another address a short while ago, and this handshake proves nothing"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Keeps the place of an SCS that has gone, if that can matter.
    fn keep_home(&mut self, scs: &ConnectedScs, now: Instant) {
        if scs.is_proven || !scs.has_role.load(Ordering::Relaxed) {
            return;
        }
        if self.homes.len() >= HOMES_MAX {
            self.homes.retain(|_, (_, until)| now < *until);
        }
        if self.homes.len() < HOMES_MAX {
            self.homes.insert(scs.id, (scs.client.address, now + HOME_KEPT));
        }
    }

    fn count_of(&self, client: &ClientShare) -> usize {
        let same = |scs: &&Arc<ConnectedScs>| scs.client.address == client.address;
        self.connected.values().filter(same).count()
    }

    /// Ends the stream of an SCS of the address with the most of them, if that address has at least
    /// two more than `own`. Returns whether there is room now.
    fn make_room(&mut self, own: usize) -> bool {
        let mut counts = HashMap::new();
        for scs in self.connected.values() {
            *counts.entry(scs.client.address).or_insert(0_usize) += 1;
        }
        let Some((&crowd, &count)) = counts.iter().max_by_key(|(_, count)| **count) else {
            return false;
        };
        if count < own + 2 {
            return false;
        }
        let newest = self
            .connected
            .values()
            .filter(|scs| scs.client.address == crowd)
            .max_by_key(|scs| {
                let has_role = scs.has_role.load(Ordering::Relaxed);
                (!has_role, !scs.is_proven, scs.number)
            });
        let Some(displaced) = newest.map(|scs| scs.id) else {
            return false;
        };
        if let Some(scs) = self.connected.remove(&displaced) {
            scs.queue.fail(Status::resource_exhausted(
                "this SCS made room for one of an address that has fewer",
            ));
        }
        true
    }
}

impl Drop for ScsRegistration {
    fn drop(&mut self) {
        let state = &mut *self.registry.state.lock();
        let is_own = |scs: &Arc<ConnectedScs>| Arc::ptr_eq(scs, &self.scs);
        if state.connected.get(&self.scs.id).is_some_and(is_own) {
            state.connected.remove(&self.scs.id);
            state.keep_home(&self.scs, Instant::now());
        }
        self.scs.client.remove_registered();
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use daemon::{ClientAddress, Quota};
    use primitives::Address;

    use super::super::client_share::ClientShares;
    use super::super::limits::ServiceLimits;
    use super::*;

    struct Setup {
        registry: Arc<ScsRegistry>,
        shares: ClientShares,
        quota: Quota,
    }

    impl Setup {
        fn new(ids_max: usize, address_ids_max: usize) -> Self {
            Self {
                registry: Arc::new(ScsRegistry::new(ids_max, address_ids_max)),
                shares: ClientShares::default(),
                quota: Quota::new(1 << 20, 100),
            }
        }

        fn client(&self, last: u8) -> Arc<ClientShare> {
            let address: ClientAddress = IpAddr::from([192, 0, 2, last]).into();
            self.shares
                .get(address, &ServiceLimits::default(), Instant::now())
        }

        fn register(&self, id: u8, client: u8) -> Result<ScsRegistration, tonic::Code> {
            self.register_on(id, client, u64::from(client), false)
        }

        fn register_on(
            &self,
            id: u8,
            client: u8,
            connection: u64,
            is_proven: bool,
        ) -> Result<ScsRegistration, tonic::Code> {
            let client = self.client(client);
            let permit = self.quota.take(client.address.into(), 0).expect("nothing");
            let queue = Arc::new(PushQueue::new(10, 1000, permit));
            let applicant = Applicant {
                id: ScsId(Address::repeat_byte(id)),
                is_proven,
                connection,
                client: &client,
                queue: &queue,
            };
            let registered = self.registry.register(applicant, ScsPushMsg::default());
            registered.map_err(|status| status.code())
        }

        fn ids(&self) -> Vec<u8> {
            let mut ids: Vec<_> = self.registry.all().iter().map(|scs| scs.id.0[0]).collect();
            ids.sort_unstable();
            ids
        }
    }

    #[test]
    fn proof_takes_a_place_and_a_name_does_not() {
        let setup = Setup::new(10, 10);
        let holder = setup.register_on(1, 1, 1, false).expect("a place");
        let refused = Some(tonic::Code::AlreadyExists);
        assert_eq!(
            setup.register_on(1, 1, 2, false).err(),
            refused,
            "its own address, too"
        );
        assert!(holder.scs.queue.is_open());
        let proven = setup.register_on(1, 2, 3, true).expect("it has proof");
        assert!(!holder.scs.queue.is_open(), "its stream ends");
        drop(holder);
        assert_eq!(setup.register_on(1, 1, 4, false).err(), refused);
        let again = setup.register_on(1, 3, 5, true).expect("the same key");
        assert!(!proven.scs.queue.is_open());
        again.scs.queue.close();
        let free = setup.register_on(1, 4, 6, false).expect("the stream has ended");
        let proven_here = setup.register_on(2, 1, 7, true).expect("a place");
        assert_eq!(
            setup.register_on(2, 1, 7, false).err(),
            refused,
            "on one connection, too"
        );
        drop((proven, again, proven_here));
        assert_eq!(setup.ids(), [1]);
        drop(free);
        assert_eq!(setup.ids(), [0_u8; 0]);
    }

    #[test]
    fn the_place_of_an_scs_that_is_away_is_kept_for_its_address() {
        let setup = Setup::new(10, 10);
        let refused = Some(tonic::Code::AlreadyExists);
        let leave = |id: u8, client: u8, is_proven, has_role| {
            let connection = u64::from(client);
            let held = setup
                .register_on(id, client, connection, is_proven)
                .expect("a place");
            if has_role {
                held.scs.note_role();
            }
        };
        leave(1, 1, false, true);
        assert_eq!(setup.register(1, 2).err(), refused, "a stranger while it is away");
        drop(setup.register(1, 1).expect("its address"));
        drop(setup.register(1, 2).expect("it had no role since then"));
        leave(2, 1, false, true);
        let proven = setup.register_on(2, 2, 2, true).expect("it has proof");
        drop(proven);
        drop(
            setup
                .register(2, 3)
                .expect("one that proves its id can prove it again"),
        );
        leave(3, 1, false, true);
        let until = setup.registry.state.lock().homes[&ScsId(Address::repeat_byte(3))].1;
        let (client, queue) = (setup.client(2), {
            let permit = setup
                .quota
                .take(setup.client(2).address.into(), 0)
                .expect("nothing");
            Arc::new(PushQueue::new(10, 1000, permit))
        });
        let late = Applicant {
            id: ScsId(Address::repeat_byte(3)),
            is_proven: false,
            connection: 2,
            client: &client,
            queue: &queue,
        };
        let state = setup.registry.state.lock();
        assert!(state.check_home(&late, until).is_ok());
        assert!(state.check_home(&late, until - Duration::from_secs(1)).is_err());
    }

    #[test]
    fn the_newest_stream_of_an_id_counts_on_one_connection() {
        let setup = Setup::new(10, 10);
        let first = setup.register(1, 1).expect("a place");
        let second = setup.register(1, 1).expect("the same place");
        assert_eq!(setup.ids(), [1]);
        drop(first);
        assert_eq!(setup.ids(), [1], "the second stream has the id");
        assert!(setup.client(1).has_registered());
        drop(second);
        assert_eq!(setup.ids(), [0_u8; 0]);
    }

    #[test]
    fn a_crowd_makes_room() {
        let setup = Setup::new(4, 3);
        let crowd: Vec<_> = (1..=3)
            .map(|id| setup.register(id, 1).expect("a place"))
            .collect();
        assert_eq!(
            setup.register(9, 1).err(),
            Some(tonic::Code::ResourceExhausted),
            "its address has enough"
        );
        setup
            .registry
            .get(&ScsId(Address::repeat_byte(3)))
            .expect("connected")
            .note_role();
        let one = setup.register(4, 2).expect("the last place");
        let two = setup.register(5, 3).expect("the crowd makes room");
        assert_eq!(setup.ids(), [1, 3, 4, 5], "the newest without a role is gone");
        drop(crowd);
        assert_eq!(setup.ids(), [4, 5]);
        drop((one, two));
        let single = Setup::new(2, 2);
        let both = [1, 2].map(|id| single.register(id, id).expect("a place"));
        assert_eq!(single.register(3, 3).err(), Some(tonic::Code::ResourceExhausted));
        drop(both);
    }

    #[test]
    fn pings_follow_a_rising_head() {
        let setup = Setup::new(1, 1);
        let _held = setup.register(1, 1).expect("a place");
        let scs = setup
            .registry
            .get(&ScsId(Address::repeat_byte(1)))
            .expect("connected");
        let now = Instant::now();
        let due = [0, 0, 3, 2, 3, 4].map(|head| scs.take_ping(head, now));
        assert_eq!(due, [Some(0), None, Some(3), None, None, Some(4)]);
        let later = now + PING_REPEAT;
        assert_eq!(scs.take_ping(2, later), Some(4), "the highest one again");
        assert_eq!(scs.take_ping(2, later), None);
    }
}
