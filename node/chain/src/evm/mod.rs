//! The EVM on revm, with each network's gas table, opcodes and precompiled contracts.
//!
//! Ethereum's rules are revm's own, except for Constantinople's SSTORE, the gas of EXP, BASEFEE and
//! opcode 0x44, of which some chains took only a part. revm bundles rules as
//! Ethereum's forks do (`spec_id`); where another network's bundle differs, gas and opcodes are
//! changed here. The public network's rules: docs/base-chain.md, 4. Its fork Fuxi has the opcodes
//! of Petersburg without EXTCODEHASH and with the older SSTORE, and CHAINID, SELFBALANCE,
//! subroutines and a cheaper CREATE2.
//!
//! | question | module |
//! |---|---|
//! | how is a block executed? | [`execute`] |
//! | how is a flagged transaction of an application chain run? | `flagged` |
//! | how is one transaction run? | `handler`, `refund` |
//! | what does a creation leave in the new account? | `sharding_mark` |
//! | what do precompiled contracts do? | [`precompiles`] |
//! | which opcodes call subroutines? | `subroutines` |
//! | what does CREATE2 cost, and what does it cost this node? | `create2` |
//! | how does the system transaction run without gas? | `unmetered` |
//! | when is a call stopped? | `deadline`, `quick_call` |

mod create2;
pub(crate) mod deadline;
pub mod execute;
pub mod flagged;
pub(crate) mod handler;
pub mod precompiles;
pub(crate) mod quick_call;
pub(crate) mod refund;
pub(crate) mod sharding_mark;
mod subroutines;
mod unmetered;

pub(crate) use flagged::FlaggedRun;

use std::sync::Arc;

use ethash::keccak256_long;
use primitives::{AccessListEntry, Address, B256, EMPTY_CODE_HASH, Header, U256};
use revm::Database;
use revm::bytecode::opcode;
use revm::context::TxEnv;
use revm::context::{BlockEnv, CfgEnv, Context, Evm, Journal};
use revm::context_interface::Host;
use revm::context_interface::cfg::gas_params::{GasId, GasParams};
use revm::context_interface::transaction::{AccessList, AccessListItem};
use revm::handler::EthFrame;
use revm::handler::instructions::EthInstructions;
use revm::inspector::NoOpInspector;
use revm::interpreter::instructions::system::copy_cost_and_memory_resize;
use revm::interpreter::instructions::{Instruction, host};
use revm::interpreter::interpreter::{EthInterpreter, resize_memory};
use revm::interpreter::interpreter_types::{InputsTr, MemoryTr, ReturnData, StackTr};
use revm::interpreter::{InstructionContext, InstructionExecResult, InstructionResult, InterpreterTypes};
use revm::primitives::hardfork::SpecId;

use crate::application::guard::CallGuard;
use crate::evm::create2::{Create2Context, create2};
use crate::evm::precompiles::{ChainPrecompiles, NOTIFY_SCS};
use crate::evm::subroutines::{
    BEGINSUB, BEGINSUB_GAS, JUMPSUB, JUMPSUB_GAS, RETURNSUB, RETURNSUB_GAS, ReturnStacks, begin_sub,
    jump_sub, return_sub,
};
use crate::evm::unmetered::{unmetered_gas, unmetered_instructions};
use crate::spec::{BlockRules, ChainSpec, Rule};

/// The longest code that creates a contract, in bytes (EIP-3860).
pub const INIT_CODE_BYTES_MAX: usize = 49_152;
/// The largest contract code on the public network, in bytes.
pub(crate) const CODE_BYTES_MAX: usize = 204_800;
/// Gas that every transaction of the public network pays.
pub const TX_GAS: u64 = 1000;
/// Gas that a contract creation on the public network pays in addition to [`TX_GAS`].
const TX_CREATE_GAS: u64 = 52_000;
/// Gas of a KECCAK256 without its words.
const KECCAK256_GAS: u16 = 30;
/// Gas of EXP for each byte of the exponent, from EIP-160 on.
const EXP_BYTE_GAS: u64 = 50;
/// Gas of SLOAD between EIP-150 and Istanbul.
const SLOAD_GAS: u64 = 200;
/// Gas of an SSTORE that sets a slot that was zero.
const SSTORE_SET_GAS: u64 = 20_000;
/// Gas of an SSTORE that changes a slot that was not zero.
const SSTORE_RESET_GAS: u64 = 5000;

/// The key of the mark that [`mark_existing`] makes.
const EXISTS_MARK: U256 = U256::ZERO;

/// The context of the EVM: block, transaction, rules, journaled state, and what the public
/// network's opcodes need.
pub(crate) type EvmContext<DB> = Context<BlockEnv, TxEnv, CfgEnv, DB, Journal<DB>, OpcodeContext>;

/// The facts that this chain's execution keeps beside revm's context.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpcodeContext {
    /// Return addresses of subroutines.
    pub(crate) returns: ReturnStacks,
    pub(crate) create2: Create2Context,
    /// Which calls are refused; `None` if all are allowed.
    pub(crate) guard: Option<Arc<CallGuard>>,
}

/// revm as this chain runs it.
pub(crate) type ChainEvm<DB, INSP = NoOpInspector> = Evm<
    EvmContext<DB>,
    INSP,
    EthInstructions<EthInterpreter, EvmContext<DB>>,
    ChainPrecompiles,
    EthFrame<EthInterpreter>,
>;

/// The EVM's block values, from a header.
pub(crate) fn block_env(header: &Header) -> BlockEnv {
    BlockEnv {
        number: U256::from(header.number),
        beneficiary: header.beneficiary,
        timestamp: U256::from(header.timestamp),
        gas_limit: header.gas_limit,
        basefee: 0,
        difficulty: header.difficulty,
        // The random value of a chain with EIP-4399 is in the place of the mix hash.
        prevrandao: Some(header.mix_hash),
        ..Default::default()
    }
}

/// An EVM for one block. `adjust` may switch checks off, for calls that are not transactions.
pub(crate) fn chain_evm<DB: Database>(
    database: DB,
    spec: &ChainSpec,
    block: BlockEnv,
    adjust: impl FnOnce(&mut CfgEnv),
) -> ChainEvm<DB> {
    let number = u64::try_from(block.number).unwrap_or(u64::MAX);
    let rules = spec.rules_at(number);
    let spec_id = spec_id(rules);
    let mut cfg = CfgEnv::new_with_spec(spec_id);
    cfg.chain_id = spec.chain_id_at(number);
    cfg.gas_params = gas_params(rules);
    // Developers send in the name of contracts, too.
    cfg.disable_eip3607 = rules.is_moac() || spec.developer;
    if rules.is_moac() {
        cfg.limit_contract_code_size = Some(CODE_BYTES_MAX);
    }
    adjust(&mut cfg);
    let mut context: EvmContext<DB> = Context::new(database, spec_id);
    context.cfg = cfg;
    context.block = block;
    let precompiles = ChainPrecompiles::new(spec, rules, spec_id);
    let instructions = instructions(spec, rules, spec_id);
    Evm::new(context, instructions, precompiles).with_inspector(NoOpInspector)
}

/// The precompiled contracts of block `number`.
pub(crate) fn builtin_contracts(spec: &ChainSpec, number: u64) -> ChainPrecompiles {
    let rules = spec.rules_at(number);
    ChainPrecompiles::new(spec, rules, spec_id(rules))
}

/// The precompiled contracts of block `number`: name and address, in the order of the addresses.
/// The names are those of EIP-7910 and of the public node.
pub fn precompiles_at(spec: &ChainSpec, number: u64) -> Vec<(String, Address)> {
    builtin_contracts(spec, number).named()
}

/// Calls `run` with an EVM that does not meter gas. Afterwards the EVM is as before.
pub(crate) fn without_metering<DB: Database, I, R>(
    evm: &mut ChainEvm<DB, I>,
    run: impl FnOnce(&mut ChainEvm<DB, I>) -> R,
) -> R {
    let instructions = unmetered_instructions(&evm.instruction);
    let gas = unmetered_gas(&evm.ctx.cfg.gas_params);
    let metered_instructions = std::mem::replace(&mut evm.instruction, instructions);
    let metered_gas = std::mem::replace(&mut evm.ctx.cfg.gas_params, gas);
    let result = run(evm);
    evm.instruction = metered_instructions;
    evm.ctx.cfg.gas_params = metered_gas;
    result
}

/// revm's name for the rules of a height: the latest of Ethereum's forks of which the chain has
/// rules. [`RuleTable::check_bundles`](crate::spec::RuleTable::check_bundles) makes sure that the
/// chain has its other rules, too, but for those that are changed in this module.
pub(crate) fn spec_id(rules: BlockRules) -> SpecId {
    const LATEST_FIRST: [(Rule, SpecId); 9] = [
        (Rule::Eip3855, SpecId::SHANGHAI),
        (Rule::Eip3541, SpecId::LONDON),
        (Rule::Eip2929, SpecId::BERLIN),
        (Rule::Eip2200, SpecId::ISTANBUL),
        (Rule::Eip145, SpecId::PETERSBURG),
        (Rule::Eip140, SpecId::BYZANTIUM),
        (Rule::Eip161, SpecId::SPURIOUS_DRAGON),
        (Rule::Eip150, SpecId::TANGERINE),
        (Rule::Eip7, SpecId::HOMESTEAD),
    ];
    let latest = LATEST_FIRST.into_iter().find(|(rule, _)| rules.has(*rule));
    latest.map_or(SpecId::FRONTIER, |(_, id)| id)
}

/// Whether SSTORE follows EIP-1283, which one fork brought and the next one took back.
const fn has_eip1283(rules: BlockRules) -> bool {
    rules.has(Rule::Eip1283) && !rules.has(Rule::Eip1716) && !rules.has(Rule::Eip2200)
}

fn gas_params(rules: BlockRules) -> GasParams {
    let mut gas = GasParams::new_spec(spec_id(rules));
    if rules.is_moac() {
        gas.override_gas([
            (GasId::tx_base_stipend(), TX_GAS),
            (GasId::tx_create_cost(), TX_CREATE_GAS),
        ]);
    }
    if rules.has(Rule::Eip160) {
        gas.override_gas([(GasId::exp_byte_gas(), EXP_BYTE_GAS)]);
    }
    // EIP-1283 uses the formula of Istanbul's EIP-2200 with SLOAD's older price of 200.
    if has_eip1283(rules) {
        gas.override_gas([
            (GasId::sstore_static(), SLOAD_GAS),
            (GasId::sstore_set_without_load_cost(), SSTORE_SET_GAS - SLOAD_GAS),
            (GasId::sstore_set_refund(), SSTORE_SET_GAS - SLOAD_GAS),
            (
                GasId::sstore_reset_without_cold_load_cost(),
                SSTORE_RESET_GAS - SLOAD_GAS,
            ),
            (GasId::sstore_reset_refund(), SSTORE_RESET_GAS - SLOAD_GAS),
        ]);
    }
    gas
}

fn instructions<DB: Database>(
    spec: &ChainSpec,
    rules: BlockRules,
    spec_id: SpecId,
) -> EthInstructions<EthInterpreter, EvmContext<DB>> {
    let mut table = EthInstructions::new_mainnet_with_spec(spec_id);
    table.insert_instruction(opcode::KECCAK256, Instruction::new(keccak256), KECCAK256_GAS);
    // The public network's own. What Ethereum's family has stands after this part.
    if rules.is_moac() {
        let extcodesize = if spec.notify_scs_always_exists {
            Instruction::new(extcodesize::<true, _, _>)
        } else {
            Instruction::new(extcodesize::<false, _, _>)
        };
        table.insert_instruction(opcode::EXTCODESIZE, extcodesize, 700);
        table.insert_instruction(opcode::SELFDESTRUCT, Instruction::new(selfdestruct), 5000);
        table.insert_instruction(opcode::RETURNDATACOPY, Instruction::new(returndatacopy), 3);
        // The public node has a price for this opcode, but does not mark it as valid.
        table.insert_instruction(opcode::EXTCODEHASH, Instruction::unknown(), 0);
        if rules.has(Rule::Eip1344) {
            table.insert_instruction(opcode::CHAINID, Instruction::new(chain_id), 2);
        }
        if rules.has(Rule::SelfBalance) {
            table.insert_instruction(opcode::SELFBALANCE, Instruction::new(self_balance), 5);
        }
        if rules.has(Rule::FlatCreate2) && !rules.has(Rule::Eip1014) {
            table.insert_instruction(opcode::CREATE2, Instruction::new(create2), 0);
        }
        if rules.has(Rule::Subroutines) {
            table.insert_instruction(BEGINSUB, Instruction::new(begin_sub), BEGINSUB_GAS);
            table.insert_instruction(JUMPSUB, Instruction::new(jump_sub), JUMPSUB_GAS);
            table.insert_instruction(RETURNSUB, Instruction::new(return_sub), RETURNSUB_GAS);
        }
    }
    if has_eip1283(rules) {
        table.insert_instruction(opcode::SSTORE, Instruction::new(sstore_eip1283), 0);
    }
    if !rules.has(Rule::Eip3198) {
        table.insert_instruction(opcode::BASEFEE, Instruction::unknown(), 0);
    }
    if !rules.has(Rule::Eip4399) {
        table.insert_instruction(opcode::DIFFICULTY, Instruction::new(difficulty), 2);
    }
    table
}

/// DIFFICULTY, where opcode 0x44 does not give a random value.
fn difficulty<IT: InterpreterTypes, H: Host + ?Sized>(
    context: InstructionContext<'_, H, IT>,
) -> InstructionExecResult {
    push(context.interpreter, context.host.difficulty())
}

/// SSTORE by EIP-1283, which Petersburg removed: net gas metering without Istanbul's minimum of
/// remaining gas.
fn sstore_eip1283<IT: InterpreterTypes, H: Host + ?Sized>(
    context: InstructionContext<'_, H, IT>,
) -> InstructionExecResult {
    host::sstore_with_gas_accounting(context, |context, _target, load| {
        let gas = context
            .host
            .gas_params()
            .sstore_dynamic_gas(true, &load.data, load.is_cold);
        let refund = context.host.gas_params().sstore_refund(true, &load.data);
        if !context.interpreter.gas.record_regular_cost(gas) {
            return Err(InstructionResult::OutOfGas);
        }
        context.interpreter.gas.record_refund(refund);
        Ok(())
    })
}

/// KECCAK256 as revm's, with the vector instructions of the processor.
fn keccak256<IT: InterpreterTypes, H: Host + ?Sized>(
    context: InstructionContext<'_, H, IT>,
) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = context;
    let Some(([offset], top)) = interpreter.stack.popn_top() else {
        return Err(InstructionResult::StackUnderflow);
    };
    let length = usize::try_from(*top).map_err(|_| InstructionResult::InvalidOperandOOG)?;
    let gas = host.gas_params().keccak256_cost(length);
    if !interpreter.gas.record_regular_cost(gas) {
        return Err(InstructionResult::OutOfGas);
    }
    let hash = if length == 0 {
        EMPTY_CODE_HASH
    } else {
        let offset = usize::try_from(offset).map_err(|_| InstructionResult::InvalidOperandOOG)?;
        resize_memory(
            &mut interpreter.gas,
            &mut interpreter.memory,
            host.gas_params(),
            offset,
            length,
        )?;
        B256::from(keccak256_long(
            interpreter.memory.slice_len(offset, length).as_ref(),
        ))
    };
    *top = hash.into();
    Ok(())
}

// revm's own function fails before its fork; these rules have the opcode earlier.
fn chain_id<IT: InterpreterTypes, H: Host + ?Sized>(
    context: InstructionContext<'_, H, IT>,
) -> InstructionExecResult {
    push(context.interpreter, context.host.chain_id())
}

fn self_balance<IT: InterpreterTypes, H: Host + ?Sized>(
    context: InstructionContext<'_, H, IT>,
) -> InstructionExecResult {
    let own = context.interpreter.input.target_address();
    let balance = context
        .host
        .balance(own)
        .ok_or(InstructionResult::FatalExternalError)?;
    push(context.interpreter, balance.data)
}

fn push<IT: InterpreterTypes>(
    interpreter: &mut revm::interpreter::Interpreter<IT>,
    value: U256,
) -> InstructionExecResult {
    if interpreter.stack.push(value) {
        Ok(())
    } else {
        Err(InstructionResult::StackOverflow)
    }
}

/// RETURNDATACOPY that is charged before the length of the return data is checked. The order
/// matters where the gas of a failed call goes back: this failure is charged.
fn returndatacopy<IT: InterpreterTypes, H: Host + ?Sized>(
    context: InstructionContext<'_, H, IT>,
) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = context;
    let Some([memory_offset, data_offset, length]) = interpreter.stack.popn() else {
        return Err(InstructionResult::StackUnderflow);
    };
    let length = usize::try_from(length).map_err(|_| InstructionResult::InvalidOperandOOG)?;
    let memory_offset = copy_cost_and_memory_resize(interpreter, host.gas_params(), memory_offset, length)?;
    let data = interpreter.return_data.buffer();
    let fits = usize::try_from(data_offset)
        .ok()
        .and_then(|offset| Some((offset, offset.checked_add(length)?)))
        .filter(|(_, end)| *end <= data.len());
    let Some((data_offset, _)) = fits else {
        return Err(InstructionResult::OutOfOffset);
    };
    if let Some(memory_offset) = memory_offset {
        interpreter
            .memory
            .set_data(memory_offset, data_offset, length, data);
    }
    Ok(())
}

/// Whether this is the address of one of the accounts 1 to 16. They are those of the network's
/// precompiled contracts, and have a code size of 1 if they exist.
fn is_low(address: &Address) -> bool {
    (U256::from(1)..=U256::from(16)).contains(&U256::from_be_slice(address.as_slice()))
}

/// Marks that an account of the addresses 1 to 16 exists until the transaction ends. The public
/// node creates an account when a precompiled contract is called, or paid by SELFDESTRUCT, even if
/// it stays empty; then the account vanishes with the transaction. The mark goes when the frame
/// that made it is reverted.
///
/// The mark is a word of transient storage, which no opcode of this family reaches.
fn mark_existing<DB: Database>(context: &mut EvmContext<DB>, address: Address) {
    if is_low(&address) {
        context
            .journaled_state
            .tstore(address, EXISTS_MARK, U256::from(1));
    }
}

/// EXTCODESIZE that returns 1 for the accounts 1 to 16, if they exist. `NOTIFY_EXISTS` says that
/// 0x0d counts as one that exists.
fn extcodesize<const NOTIFY_EXISTS: bool, IT: InterpreterTypes, DB: Database>(
    context: InstructionContext<'_, EvmContext<DB>, IT>,
) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = context;
    let Some(([], top)) = interpreter.stack.popn_top() else {
        return Err(InstructionResult::StackUnderflow);
    };
    let address = Address::from_word((*top).into());
    if is_low(&address) {
        let is_empty = host
            .load_account_info_skip_cold_load(address, false, false)?
            .is_empty;
        let was_stored = || {
            let loaded = host.journaled_state.inner.state.get(&address);
            loaded.is_some_and(|account| !account.is_loaded_as_not_existing())
        };
        let exists = !is_empty || was_stored() || host.tload(address, EXISTS_MARK) != U256::ZERO;
        if exists || (NOTIFY_EXISTS && address == NOTIFY_SCS) {
            *top = U256::from(1);
            return Ok(());
        }
    }
    host::extcodesize(InstructionContext { interpreter, host })
}

/// SELFDESTRUCT that creates its beneficiary, see [`mark_existing`].
fn selfdestruct<IT: InterpreterTypes, DB: Database>(
    context: InstructionContext<'_, EvmContext<DB>, IT>,
) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = context;
    let beneficiary = interpreter
        .stack
        .popn_top::<0>()
        .map(|(_, top)| Address::from_word((*top).into()));
    let result = host::selfdestruct(InstructionContext {
        interpreter: &mut *interpreter,
        host: &mut *host,
    });
    if let (Err(InstructionResult::SelfDestruct), Some(beneficiary)) = (&result, beneficiary) {
        mark_existing(host, beneficiary);
    }
    result
}

/// The gas that a transaction with this input and this access list pays before any code runs.
pub fn intrinsic_gas(rules: BlockRules, input: &[u8], creates: bool, access_list: &[AccessListEntry]) -> u64 {
    let gas = gas_params(rules);
    let zeros = input.iter().filter(|byte| **byte == 0).count() as u64;
    let others = input.len() as u64 - zeros;
    let tokens = zeros + others * gas.tx_token_non_zero_byte_multiplier();
    let mut create = if creates { gas.tx_create_cost() } else { 0 };
    if creates && rules.has(Rule::Eip3860) {
        create += gas.tx_initcode_cost(input.len());
    }
    let slots: usize = access_list.iter().map(|entry| entry.slots.len()).sum();
    let listed = gas.tx_access_list_cost(access_list.len() as u64, slots as u64);
    gas.tx_base_stipend() + create + tokens * gas.tx_token_cost() + listed
}

/// The access list as revm takes it.
pub(crate) fn access_list(entries: &[AccessListEntry]) -> AccessList {
    let item = |entry: &AccessListEntry| AccessListItem {
        address: entry.address,
        storage_keys: entry.slots.clone(),
    };
    AccessList(entries.iter().map(item).collect())
}
