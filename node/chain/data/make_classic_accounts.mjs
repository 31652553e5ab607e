// Makes the content of classic_accounts.zst; README.md beside it describes the form.
// Usage: npm install @ethereumjs/genesis@10.1.3 && node make_classic_accounts.mjs accounts.bin
//        zstd --ultra -22 accounts.bin -o classic_accounts.zst
import { writeFileSync } from "node:fs";
import { getGenesis } from "@ethereumjs/genesis";

const hexOf = (value) => {
  const digits = BigInt(value) === 0n ? "" : BigInt(value).toString(16);
  return digits.length % 2 === 0 ? digits : `0${digits}`;
};
const rows = Object.entries(getGenesis(1)).map(([address, balance]) => {
  if (typeof balance !== "string") throw new Error(`${address} has more than a balance`);
  return [address.replace(/^0x/, "").toLowerCase(), hexOf(balance)];
});
rows.sort(([one], [other]) => (one < other ? -1 : 1));
const addresses = rows.map(([address]) => Buffer.from(address, "hex"));
const balances = rows.map(([, digits]) => Buffer.from(`${(digits.length / 2).toString(16).padStart(2, "0")}${digits}`, "hex"));
writeFileSync(process.argv[2], Buffer.concat([...addresses, ...balances]));
