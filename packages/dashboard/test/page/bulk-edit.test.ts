import { describe, expect, it } from 'vitest'
import { type AttributeChange, bulkEditProblem, editOfAll, emptyBulkEdit, withAttribute } from '../../page/state/bulk-edit.ts'

function editing(destination: string, ...changes: readonly AttributeChange[]) {
  return changes.reduce((edit, change, index) => withAttribute(edit, index, change), { ...emptyBulkEdit, destination })
}

describe('an edit of several records', () => {
  it('changes nothing at first, and cannot be saved', () => {
    expect(editOfAll(emptyBulkEdit)).toBeUndefined()
    expect(bulkEditProblem(emptyBulkEdit)).toBe('')
  })

  it('has only what was filled in, with the types that were chosen', () => {
    const edit = editing(
      ' archive ',
      { name: 'tenant', kind: 'text', value: '7' },
      { name: ' priority ', kind: 'number', value: '7' },
      { name: 'urgent', kind: 'boolean', value: 'false' },
      { name: 'note', kind: 'removed', value: 'left over' },
    )
    expect(bulkEditProblem(edit)).toBeUndefined()
    expect(editOfAll(edit)).toEqual({ destination: 'archive', attributes: { tenant: '7', priority: 7, urgent: false, note: null } })
    expect(editOfAll(editing('archive'))).toEqual({ destination: 'archive' })
  })

  it('always has one empty row at the end', () => {
    const one = editing('', { name: 'a', kind: 'text', value: '' })
    expect(one.attributes.map(({ name }) => name)).toEqual(['a', ''])
    const cleared = withAttribute(one, 0, { name: '', kind: 'text', value: '' })
    expect(cleared.attributes).toHaveLength(2)
    expect(editOfAll(cleared)).toBeUndefined()
  })

  it.each<[AttributeChange[], string]>([
    [[{ name: '', kind: 'text', value: 'x' }], 'The new attribute needs a name.'],
    [[{ name: 'id', kind: 'text', value: 'x' }], 'The message id can be edited for one record at a time'],
    [[{ name: 'count', kind: 'number', value: ' ' }], 'The attribute count must be a number.'],
    [[{ name: 'urgent', kind: 'boolean', value: 'yes' }], 'The attribute urgent must be true or false.'],
    [Array.from({ length: 2 }, () => ({ name: 'a', kind: 'text', value: '' })), 'The attribute a is changed twice.'],
  ])('is rejected with %j', (changes, problem) => {
    expect(bulkEditProblem(editing('archive', ...changes))).toContain(problem)
  })
})
