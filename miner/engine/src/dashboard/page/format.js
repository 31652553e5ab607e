// Figures as text: rates, amounts, times. Knows no elements.

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** A number with a prefix: value and unit. Three significant digits, at least. */
export function scaled(number, unit) {
  if (!Number.isFinite(number)) return ["–", ""];
  let power = 0;
  let value = Math.abs(number);
  while (value >= 999.95 && power < PREFIXES.length - 1) {
    value /= 1000;
    power += 1;
  }
  const digits = power === 0 && Number.isInteger(value) ? 0 : value >= 100 ? 1 : 2;
  return [(Math.sign(number) * value).toFixed(digits), PREFIXES[power] + unit];
}

/** A hashrate, such as `12.34 MH/s`. */
export function rate(hashes) {
  const [value, unit] = scaled(hashes, "H/s");
  return `${value}\u00a0${unit}`;
}

/** A number with separators. */
export function count(number) {
  return Number(number).toLocaleString("en-US");
}

/** A number of things: `1 worker`, `2 workers`. */
export function things(number, name) {
  return `${count(number)} ${name}${number === 1 ? "" : "s"}`;
}

/** A large number in words, such as a difficulty: `1.23 T`. */
export function large(text) {
  const number = Number(text);
  if (number < 100000) return count(number);
  const [value, unit] = scaled(number, "");
  return `${value}\u00a0${unit}`;
}

/** A part of a whole in percent; `–` if there is no whole. */
export function percent(part, whole) {
  if (part > 0 && part / whole < 0.0005) return "<\u00a00.1\u00a0%";
  return whole > 0 ? `${((part * 100) / whole).toFixed(part > 0 && part / whole < 0.1 ? 1 : 0)}\u00a0%` : "–";
}

/** A time span in seconds, in its two largest units. */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return "unknown";
  const whole = Math.max(0, Math.round(seconds));
  if (seconds > 0 && seconds < 1) return "<\u00a01\u00a0s";
  const units = [
    ["y", 31536000],
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ];
  const first = units.findIndex(([, length]) => whole >= length);
  if (first < 0) return "0\u00a0s";
  const [name, length] = units[first];
  const value = Math.floor(whole / length);
  if (value >= 1000) return `${count(value)}\u00a0${name}`;
  const next = units[first + 1];
  const rest = next ? Math.floor((whole % length) / next[1]) : 0;
  const more = rest > 0 && value < 10 ? `\u00a0${rest}\u00a0${next[0]}` : "";
  return `${value}\u00a0${name}${more}`;
}

/** The age of something. */
export function ago(seconds) {
  return seconds < 1 ? "now" : `${span(seconds)}\u00a0ago`;
}

/** A moment in the reader's time zone. `unix` are seconds. */
export function moment(unix) {
  return new Date(unix * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

/** The time of day, hours and minutes, and seconds if wanted. */
export function clock(unix, seconds) {
  const style = { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined };
  return new Date(unix * 1000).toLocaleTimeString("en-GB", style);
}

/** An amount in sha (10^18 are a coin) as coins, without trailing zeros. `digits` are the most
 * digits behind the point; what is smaller is shown as below. */
export function coins(sha, digits = 6) {
  const amount = BigInt(sha);
  const whole = amount / 10n ** 18n;
  const rest = (amount % 10n ** 18n).toString().padStart(18, "0");
  const cut = rest.slice(0, digits).replace(/0+$/, "");
  if (whole === 0n && cut === "" && amount > 0n) return `below 0.${"0".repeat(digits - 1)}1`;
  return whole.toLocaleString("en-US") + (cut ? `.${cut}` : "");
}

/** An amount in sha as coins, with all digits and the unit. */
export function money(sha) {
  const text = coins(sha, 18);
  return `${text} ${text === "1" ? "coin" : "coins"}`;
}

/** A gas price in sha, in the unit that people use. */
export function price(sha) {
  const amount = BigInt(sha);
  if (amount < 1000000n) return `${count(amount)} sha`;
  return `${coins(amount * 10n ** 9n, 4)} Gsha`;
}

/** A hash or an address with its middle left out. */
export function short(hex) {
  return hex.length > 18 ? `${hex.slice(0, 8)}…${hex.slice(-6)}` : hex;
}

/** A number in hex digits, such as `0x1f`, as a number; null stays null. */
export function number(hex) {
  return hex === null || hex === undefined ? null : Number(BigInt(hex));
}
