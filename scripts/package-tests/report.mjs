// @ts-check

/** Runs named checks, prints each with its time, and counts them. */
export class Report {
  passed = 0
  failed = 0
  #started = performance.now()

  /**
   * A series of checks, of which each needs the one before. After a failure the rest counts as failed.
   *
   * @param {string} title
   * @param {readonly (readonly [string, () => Promise<void>])[]} checks
   * @param {() => Promise<void>} cleanUp runs in any case; a failure is one of the series
   */
  async series(title, checks, cleanUp) {
    let isBroken = false
    for (const [name, check] of checks) {
      if (isBroken) this.#fail(`${title}: ${name}`, 'not reached')
      else isBroken = !(await this.check(`${title}: ${name}`, check))
    }
    await this.check(`${title}: cleans up`, cleanUp)
  }

  /** Resolves to whether it passed. @param {string} title @param {() => Promise<void>} check */
  async check(title, check) {
    const start = performance.now()
    try {
      await check()
      this.passed += 1
      console.log(`ok      ${seconds(performance.now() - start)}  ${title}`)
      return true
    } catch (error) {
      this.#fail(title, error instanceof Error ? (error.stack ?? error.message) : String(error))
      return false
    }
  }

  /** @param {string} title @param {string} reason */
  #fail(title, reason) {
    this.failed += 1
    console.log(`FAILED           ${title}\n${reason.replaceAll(/^/gm, '        ')}`)
  }

  /** Prints the counts as the last line. */
  end() {
    console.log(`The packages were tested in ${seconds(performance.now() - this.#started).trim()}.`)
    console.log(`${this.passed} passed, ${this.failed} failed`)
  }
}

/** @param {number} milliseconds */
function seconds(milliseconds) {
  return `${(milliseconds / 1000).toFixed(1)} s`.padStart(7)
}
