// @ts-check
// A reporter of vitest that keeps the tables which tests print, for docs/guarantees.md: a suite need do no more than
// `console.log(results.format())`.
import { writeFileSync } from 'node:fs'

export const tablesVariable = 'ACKORD_PROOF_TABLES'

export default class ProofReporter {
  /** What each test, or file, has printed. @type {Map<string, string>} */
  #printed = new Map()

  /** @param {import('vitest').UserConsoleLog} log */
  onUserConsoleLog({ content, taskId = '', type }) {
    if (type === 'stdout') this.#printed.set(taskId, (this.#printed.get(taskId) ?? '') + content)
  }

  onTestRunEnd() {
    const file = process.env[tablesVariable]
    if (file !== undefined) writeFileSync(file, [...this.#printed.values()].join('\n'))
  }
}
