import { afterEachFile } from '../../../../test/leftovers/after-each-file.ts'

/** A database, or a schema in one, that the tests of a file use one after another. */
export interface Pooled {
  /** Removes all changes of the last test. Resolves to `false` if that is not possible: the database must then not be reused. */
  reset(): Promise<boolean>
  drop(): Promise<void>
}

/**
 * The unused databases of a test file. Creating a database with all its tables takes a hundred times as long as emptying the tables. All
 * databases are dropped after the last test of the file.
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

  /** Takes a database that an earlier test returned under the same name. */
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
