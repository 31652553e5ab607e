//! Limits the power of cards for the life of a program, and gives them their limits back.
//!
//! Only NVIDIA's library can do so, and it wants the rights of an administrator. A program that is
//! killed leaves the limit as it is.

use std::fmt;

use super::nvidia::NvidiaCards;

/// The reasons why the power of a card is not limited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PowerLimitError {
    /// Nobody knows how to limit this card.
    #[error("its driver limits no power")]
    NotSupported,
    /// The card cannot be limited so.
    #[error("got {got} W, expected {min} to {max} W")]
    OutOfRange {
        /// The wanted limit.
        got: u32,
        /// The lowest possible limit.
        min: u32,
        /// The highest possible limit.
        max: u32,
    },
    /// The driver refuses.
    #[error("the driver refuses: {0}")]
    Refused(String),
}

/// Reads and sets the power limits of cards, in milliwatts, by their PCI addresses.
pub(super) trait PowerCards {
    /// The lowest and the highest possible limit.
    fn range(&self, bus: &str) -> Result<(u32, u32), PowerLimitError>;
    /// The present limit.
    fn limit(&self, bus: &str) -> Result<u32, PowerLimitError>;
    /// Sets the limit.
    fn set_limit(&self, bus: &str, milliwatts: u32) -> Result<(), PowerLimitError>;
}

/// The limits that were set. Dropping this gives the cards their former limits back.
pub struct PowerLimits {
    cards: Box<dyn PowerCards>,
    /// PCI address and former limit of each card.
    former: Vec<(String, u32)>,
}

impl PowerLimits {
    /// Nothing is limited yet.
    pub fn none() -> Self {
        Self::of(Box::new(NvidiaCards::default()))
    }

    fn of(cards: Box<dyn PowerCards>) -> Self {
        Self {
            cards,
            former: Vec::new(),
        }
    }

    /// Limits the card at the PCI address `bus` to `watts`.
    ///
    /// # Errors
    /// [`PowerLimitError`] if the limit does not change.
    pub fn set(&mut self, bus: &str, watts: u32) -> Result<(), PowerLimitError> {
        let (min, max) = self.cards.range(bus)?;
        let milliwatts = watts.saturating_mul(1000);
        if !(min..=max).contains(&milliwatts) {
            return Err(PowerLimitError::OutOfRange {
                got: watts,
                min: min.div_ceil(1000),
                max: max / 1000,
            });
        }
        let former = self.cards.limit(bus)?;
        self.cards.set_limit(bus, milliwatts)?;
        self.former.push((bus.to_owned(), former));
        Ok(())
    }
}

impl Drop for PowerLimits {
    fn drop(&mut self) {
        for (bus, former) in &self.former {
            if let Err(error) = self.cards.set_limit(bus, *former) {
                tracing::warn!(bus, "the power limit stays: {error}");
            }
        }
    }
}

impl fmt::Debug for PowerLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PowerLimits").field(&self.former).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// One card at bus `a`, of 100 to 300 W.
    struct Fake(Arc<Mutex<u32>>);

    impl PowerCards for Fake {
        fn range(&self, bus: &str) -> Result<(u32, u32), PowerLimitError> {
            if bus == "a" {
                Ok((100_000, 300_000))
            } else {
                Err(PowerLimitError::NotSupported)
            }
        }

        fn limit(&self, _: &str) -> Result<u32, PowerLimitError> {
            Ok(*self.0.lock())
        }

        fn set_limit(&self, _: &str, milliwatts: u32) -> Result<(), PowerLimitError> {
            *self.0.lock() = milliwatts;
            Ok(())
        }
    }

    #[test]
    fn a_limit_ends_with_the_program() {
        let card = Arc::new(Mutex::new(250_000));
        let mut limits = PowerLimits::of(Box::new(Fake(Arc::clone(&card))));
        assert_eq!(limits.set("a", 180), Ok(()));
        assert_eq!(*card.lock(), 180_000);
        let range = |got| PowerLimitError::OutOfRange {
            got,
            min: 100,
            max: 300,
        };
        assert_eq!(limits.set("a", 301), Err(range(301)));
        assert_eq!(limits.set("a", u32::MAX), Err(range(u32::MAX)));
        assert_eq!(limits.set("b", 180), Err(PowerLimitError::NotSupported));
        drop(limits);
        assert_eq!(*card.lock(), 250_000);
    }
}
