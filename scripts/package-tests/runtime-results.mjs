// @ts-check

/** @typedef {import('./runtime-program/checks.mjs').Result} Result */

/**
 * A check that does not pass on a runtime.
 *
 * @typedef {object} KnownFailure
 * @property {'Bun' | 'Deno'} runtime
 * @property {string} suite
 * @property {string} check
 * @property {string} reason
 */

/**
 * The results that the program has printed. Throws if a part has none.
 *
 * @param {string} output
 * @param {readonly string[]} parts
 * @returns {readonly Result[]}
 */
export function readResults(output, parts) {
  /** @type {Result[]} */
  const results = output
    .split('\n')
    .filter((line) => line.startsWith('{"part":'))
    .map((line) => JSON.parse(line))
  const silent = [...parts, 'process'].filter((part) => !results.some((result) => result.part === part))
  if (silent.length > 0) throw new Error(`There is no result of ${silent.join(', ')}. The program has printed:\n${output}`)
  return results
}

/**
 * The suites with what is wrong in each: checks that fail and are not known to, and checks that are known to fail and pass, or are not there.
 *
 * @param {readonly Result[]} results
 * @param {readonly KnownFailure[]} known
 */
export function judgeResults(results, known) {
  const suites = new Set([...results, ...known].map(({ suite }) => suite))
  return [...suites].map((suite) => {
    const own = results.filter((result) => result.suite === suite)
    const expected = known.filter((failure) => failure.suite === suite)
    const unexpected = own
      .filter(({ check, error }) => error !== undefined && !expected.some((failure) => failure.check === check))
      .map(({ check, error }) => `${check}:\n${error}`)
    const untrue = expected
      .filter(({ check }) => !own.some((result) => result.check === check && result.error !== undefined))
      .map(({ check, reason }) => `${check}: does not fail, but is listed as a known failure (${reason}).`)
    return { suite, checks: own.length, problems: [...unexpected, ...untrue] }
  })
}
