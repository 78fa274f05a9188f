import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import * as root from '../src/index.ts'
import * as middleware from '../src/middleware.ts'
import * as payload from '../src/payload.ts'

describe('the public names of @ackord/core', () => {
  it('has at most 60 values in its main entry', () => {
    expect(Object.keys(root).length).toBeLessThanOrEqual(60)
  })

  it('has the built-in middleware in an entry of its own', () => {
    const names = Object.keys(root).filter((name) => name !== 'middleware' && name.endsWith('Middleware'))
    expect(names).toEqual([])
    expect(Object.keys(middleware)).toEqual(expect.arrayContaining(['retryMiddleware', 'timeoutMiddleware', 'validateMiddleware']))
  })

  it('exports no name from two entries', () => {
    expect([...Object.keys(middleware), ...Object.keys(payload)].filter((name) => name in root)).toEqual([])
    expect(Object.keys(payload).filter((name) => name in middleware)).toEqual([])
  })

  it('has a comment above each group of names', () => {
    const groups = readFileSync(new URL('../src/index.ts', import.meta.url), 'utf8')
      .trim()
      .split('\n\n')
    expect(groups.filter((group) => !group.startsWith('// '))).toEqual([])
  })
})
