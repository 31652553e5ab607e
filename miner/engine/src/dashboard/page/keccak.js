// Keccak-256 of short texts: selectors of functions and topics of events.

const MASK = (1n << 64n) - 1n;
/** Bytes that one permutation takes in. */
const RATE = 136;

const turned = (word, bits) => (bits === 0n ? word : ((word << bits) | (word >> (64n - bits))) & MASK);

/** The permutation of Keccak on 25 words. */
function permute(words) {
  let register = 1;
  for (let round = 0; round < 24; round += 1) {
    const column = [0, 1, 2, 3, 4].map((x) => words[x] ^ words[x + 5] ^ words[x + 10] ^ words[x + 15] ^ words[x + 20]);
    for (let at = 0; at < 25; at += 1) words[at] ^= column[(at + 4) % 5] ^ turned(column[(at + 1) % 5], 1n);
    let [x, y, moved] = [1, 0, words[1]];
    for (let step = 0; step < 24; step += 1) {
      [x, y] = [y, (2 * x + 3 * y) % 5];
      const at = x + 5 * y;
      const bits = BigInt((((step + 1) * (step + 2)) / 2) % 64);
      [words[at], moved] = [turned(moved, bits), words[at]];
    }
    for (let row = 0; row < 25; row += 5) {
      const old = words.slice(row, row + 5);
      for (let at = 0; at < 5; at += 1) words[row + at] = old[at] ^ (~old[(at + 1) % 5] & MASK & old[(at + 2) % 5]);
    }
    for (let power = 0; power < 7; power += 1) {
      if (register & 1) words[0] ^= 1n << BigInt((1 << power) - 1);
      register = (register << 1) ^ (register & 0x80 ? 0x171 : 0);
    }
  }
}

/** The hash of a text in UTF-8, as 64 hex digits. */
export function keccak256(text) {
  const bytes = [...new TextEncoder().encode(text)];
  const length = Math.ceil((bytes.length + 1) / RATE) * RATE;
  const padded = Uint8Array.from({ length }, (_, at) => bytes[at] ?? 0);
  padded[bytes.length] ^= 0x01;
  padded[length - 1] ^= 0x80;
  const words = Array(25).fill(0n);
  for (let block = 0; block < length; block += RATE) {
    for (let at = 0; at < RATE; at += 1) words[at >> 3] ^= BigInt(padded[block + at]) << BigInt(8 * (at & 7));
    permute(words);
  }
  const hex = (word) => word.toString(16).padStart(16, "0").match(/../g).reverse().join("");
  return words.slice(0, 4).map(hex).join("");
}
