import { describe, expect, it } from 'vitest'
import { script } from '../../src/client/port.ts'
import { extendFragment } from '../../src/outbox/lua/expiry/scripts.ts'
import { outboxFragment } from '../../src/outbox/lua/scripts/commit-fragment.ts'
import { cancelFragment } from '../../src/outbox/stream/scripts/cancel-fragment.ts'
import { commitScript, commitScriptFor } from '../../src/transaction/commit-script.ts'

describe('the commit script', () => {
  it('contains no outbox code without a fragment', () => {
    expect(commitScriptFor(false, [])).toBe(commitScript)
    expect(commitScript.lua).not.toContain('outbox')
  })

  it('is assembled once per set of fragments, in whatever order they come', () => {
    const both = commitScriptFor(false, [outboxFragment, cancelFragment])
    expect(commitScriptFor(false, [cancelFragment, outboxFragment])).toBe(both)
    expect(commitScriptFor(true, [cancelFragment, outboxFragment])).not.toBe(both)
    expect(both.lua).toContain(outboxFragment.lua)
    expect(both.lua).toContain(cancelFragment.lua)
    expect(commitScriptFor(false, [outboxFragment]).lua).not.toContain(cancelFragment.lua)
  })

  it('assigns every fragment its own letter', () => {
    const letters = [outboxFragment, cancelFragment, extendFragment].map(({ letter }) => letter)
    const taken = 'sifphcrlezxutbagnkmw'
    expect(new Set([...letters, ...taken]).size).toBe(letters.length + taken.length)
  })

  it('rejects two fragments with one letter', () => {
    const other = { letter: outboxFragment.letter, ...script('function fragment.run() end') }
    expect(() => commitScriptFor(false, [outboxFragment, other])).toThrow("Two fragments have the letter 'q'")
  })
})
