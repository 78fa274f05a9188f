// @ts-check
// A vitest reporter that collects the tables printed by tests, for docs/guarantees.md: a suite only needs to call
// `console.log(results.format())`.
import { writeFileSync } from 'node:fs'

export const tablesVariable = 'ACKORD_PROOF_TABLES'

export default class ProofReporter {
  /** The output of each test, or file. @type {Map<string, string>} */
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
