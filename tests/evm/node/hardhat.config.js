// Blocks are mined when a test asks for them; a pool in first-come order would hide what a price does.
module.exports = {
  solidity: "0.8.28",
  networks: {
    hardhat: {
      chainId: 31337,
      mining: { auto: false, interval: 0, mempool: { order: "priority" } },
      accounts: { mnemonic: "test test test test test test test test test test test junk" },
    },
  },
};
