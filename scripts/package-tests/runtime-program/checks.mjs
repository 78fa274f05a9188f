// @ts-check

/**
 * The result of one check, which the program prints as a line of JSON.
 *
 * @typedef {{ part: string, suite: string, check: string, milliseconds: number, error?: string }} Result
 */

/** @typedef {(result: Result) => void} PrintResult */

/** Milliseconds for a check. Long enough for a busy machine. */
const limit = 60_000

/** A small test runner: as the suites of the testkit need it, and without files, hooks and options. */
export class Checks {
  #part
  #suite = ''
  /** @type {{ suite: string, check: string, body: () => Promise<void> }[]} */
  #checks = []

  /** @param {string} part of the program */
  constructor(part) {
    this.#part = part
  }

  describe = (/** @type {string} */ suite, /** @type {() => void} */ body) => {
    this.#suite = suite
    body()
  }

  it = (/** @type {string} */ check, /** @type {() => Promise<void>} */ body) => {
    this.#checks.push({ suite: this.#suite, check, body })
  }

  /** Runs the checks one after the other. Never rejects. @param {PrintResult} print */
  async run(print) {
    for (const { suite, check, body } of this.#checks) {
      const start = performance.now()
      /** @type {string | undefined} */
      let error
      try {
        await within(limit, body())
      } catch (caught) {
        error = textOf(caught)
      }
      print({
        part: this.#part,
        suite,
        check,
        milliseconds: Math.round(performance.now() - start),
        ...(error === undefined ? {} : { error }),
      })
    }
  }
}

/** Never empty: on Bun a SyntaxError has no stack. @param {unknown} error */
export function textOf(error) {
  if (!(error instanceof Error)) return `${error}`
  const { stack = '', message, name } = error
  // The stack of Bun does not begin with the message.
  return stack.includes(message) ? stack || name : `${name}: ${message}\n${stack}`
}

/** Settles as the promise does, or rejects if that takes longer. @template T @param {number} limit milliseconds @param {Promise<T>} work @returns {Promise<T>} */
async function within(limit, work) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`This did not end within ${limit} ms.`)), limit)
  })
  try {
    return await /** @type {Promise<T>} */ (Promise.race([work, late]))
  } finally {
    clearTimeout(timer)
  }
}
