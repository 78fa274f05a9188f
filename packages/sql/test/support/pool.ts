import { afterEachFile } from '../../../../test/leftovers/after-each-file.ts'

/** A database, or a schema in one, which the tests of a file use one after the other. */
export interface Pooled {
  /** Leaves nothing of the last test in it. Resolves to `false` if that is not possible: it must not be used again. */
  reset(): Promise<boolean>
  drop(): Promise<void>
}

/**
 * The databases of a test file that no test is using. To create one with all its tables takes a hundred times as long as to empty the tables.
 * All are dropped after the last test of the file.
 */
export class DatabasePool<Item extends Pooled> {
  readonly #free = new Map<string, Item[]>()

  constructor() {
    afterEachFile(async () => {
      const items = [...this.#free.values()].flat()
      this.#free.clear()
      await Promise.all(items.map((item) => item.drop()))
    })
  }

  /** One that an earlier test under the same name has given back. */
  take(name: string): Item | undefined {
    return this.#free.get(name)?.pop()
  }

  async giveBack(name: string, item: Item): Promise<void> {
    if (!(await item.reset())) {
      await item.drop()
      return
    }
    const items = this.#free.get(name) ?? []
    this.#free.set(name, items)
    items.push(item)
  }
}
