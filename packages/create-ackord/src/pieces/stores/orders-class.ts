/** The class of `src/adapters` that implements `Orders`; only its two methods differ between stores and clients. */
export interface OrdersClass {
  readonly name: string
  readonly comment: string
  readonly imports: string
  readonly add: string
  readonly markPaid: string
}

/** A class on a SQL database, whatever its client. */
export function sqlOrdersClass({ name, comment, imports, add, markPaid }: OrdersClass): string {
  return `${imports}
/** ${comment} */
export class ${name} implements Orders {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async add({ id, total }: Order): Promise<boolean> {
${indented(add)}
  }

  async markPaid(id: string): Promise<boolean> {
${indented(markPaid)}
  }
}
`
}

function indented(lines: string): string {
  return lines
    .trim()
    .split('\n')
    .map((line) => (line === '' ? '' : `    ${line}`))
    .join('\n')
}
