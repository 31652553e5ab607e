// Hardhat with a compiler that is installed already, and the node as its network.

require('@nomicfoundation/hardhat-ethers');
require('@nomicfoundation/hardhat-chai-matchers');
const { subtask } = require('hardhat/config');
const { TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD } = require('hardhat/builtin-tasks/task-names');
const solc = require('solc');

const VERSION = '0.8.28';

subtask(TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD, async () => ({
    compilerPath: require.resolve('solc/soljson.js'),
    isSolcJs: true,
    version: VERSION,
    longVersion: solc.version(),
}));

const folder = process.env.SAMPLE_FOLDER;
module.exports = {
    solidity: { version: VERSION, settings: { evmVersion: 'petersburg' } },
    networks: { vnode: { url: process.env.NODE_URL } },
    paths: { root: folder, sources: `${folder}/contracts`, tests: `${folder}/test`, cache: `${folder}/cache`, artifacts: `${folder}/artifacts` },
};
