//! The package from outside: disks that fill up, break, lose power and flip bytes.

mod disk;
mod faults;
