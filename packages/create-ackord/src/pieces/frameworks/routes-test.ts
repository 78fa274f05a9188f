import { importStatements } from '../imports.ts'
import type { Imports } from '../piece.ts'

export interface RoutesTestOptions {
  readonly imports: Imports
  /** The statement that creates `app`. */
  readonly open: string
  /** Statements that send `body` and return the status. */
  readonly post: string
  /** A statement that closes `app`. Default: none. */
  readonly close?: string
}

/** The test of the routes: only how an application is created and called differs. */
export function routesTest({ imports, open, post, close }: RoutesTestOptions): string {
  return `${importStatements(imports, { vitest: ['expect', 'it'], '../src/domain/order.ts': ['type Order'] })}

it('places an order once, although the client sends it twice', async () => {
  const placed = new Set<string>()
  const placeOrder = async ({ id }: Order) => {
    const isNew = !placed.has(id)
    placed.add(id)
    return isNew
  }
  ${open}
  const post = async (body: object) => {
    ${post}
  }

  expect(await post({ id: 'o-1', total: 42 })).toBe(201)
  expect(await post({ id: 'o-1', total: 42 })).toBe(200)
  expect(await post({ id: 'o-2', total: -1 })).toBe(400)
  expect([...placed]).toEqual(['o-1'])${close === undefined ? '' : `\n  ${close}`}
})
`
}
