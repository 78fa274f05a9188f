import fc from 'fast-check'

/** Part of every user text, so that the text is found wherever it appears. */
export const mark = 'zq7!'

/** Texts that end, open or continue a construct in SQL, Lua, keys, formats or logs. */
export const specials: readonly string[] = [
  `'`,
  `''`,
  `"`,
  '`',
  '\\',
  `\\'`,
  `\\"`,
  `'; DROP TABLE canary; --`,
  `"; DROP TABLE canary; --`,
  '`; DROP TABLE canary; -- ',
  `') ON CONFLICT DO NOTHING; DELETE FROM canary; --`,
  `' OR '1'='1`,
  `\\'; DELETE FROM canary; -- `,
  `%27; DELETE FROM canary`,
  `$1`,
  `$$; DELETE FROM canary; $$`,
  '?',
  '??',
  ':name',
  '@name',
  '@@version',
  '{}',
  '{tag}',
  '}',
  '{',
  '}{',
  '/*',
  '*/',
  '--',
  '#',
  ';',
  '%s',
  '%n%d',
  '$' + '{process.exit()}',
  '{{7*7}}',
  'KEYS[1]',
  'ARGV[1]',
  `redis.call('FLUSHALL')`,
  `]] redis.call('FLUSHALL') --[[`,
  '"] return redis.call("FLUSHALL")',
  '*3\r\n$8\r\nFLUSHALL',
  'a b',
  ' ',
  'a:b',
  'a|b',
  'a,b',
  '*',
  '[a-z]',
  '>',
  '$',
  '-',
  '+',
  '0',
  '-1',
  '1e400',
  'null',
  'undefined',
  'NaN',
  'true',
  '__proto__',
  'constructor',
  'toString',
  '../../etc/passwd',
  '\u0430dmin',
  'admin',
  'ADMIN',
  'ádmin',
  'a\u0301dmin',
  'ﬁ',
  'ß',
  'İ',
  '\u202eevil',
  '\u200b',
  '\ufeff',
  '\u{1f600}',
  '\u{10ffff}',
  'line\nbreak',
  'tab\tand\rreturn',
  '\u0001',
  '\u001b[31m',
  '\u007f',
  '\u0085',
  '\u2028',
  '\0',
  'a\0b',
  '\ud800',
  '\udfff\ud800',
  'x'.repeat(900),
  'é'.repeat(600),
].map((text) => `${mark}${text}`)

/** Fixed, so that all runs use the same texts. */
const seed = 20_260_101

/** Arbitrary characters, including those that no store accepts. */
export function randomTexts(count: number): string[] {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 40 }),
    fc.string({ unit: 'binary-ascii', maxLength: 40 }),
    fc.string({ unit: fc.constantFrom(...`'"\`\\;-/*%$?:{}[]()\n\0é`), maxLength: 20 }),
  )
  return fc.sample(text, { seed, numRuns: count }).map((each) => `${mark}${each}`)
}

/** Whether every store accepts the text: no NUL, well-formed Unicode, and short enough for an index together with another text. */
export function canBeStored(text: string): boolean {
  return !text.includes('\0') && isWellFormed(text) && Buffer.byteLength(text) <= 1000
}

/** Whether every surrogate is part of a pair. */
export function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text)
}
