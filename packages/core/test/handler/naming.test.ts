import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { asIs, dotCase, kebabCase, snakeCase } from '../../src/handler/naming.ts'

describe('naming', () => {
  it.each([
    ['OrderPlaced', 'order.placed'],
    ['orderPlaced', 'order.placed'],
    ['HTTPRequest', 'http.request'],
    ['IOBroker', 'io.broker'],
    ['ID', 'id'],
    ['UserID', 'user.id'],
    ['XMLHTTPRequest', 'xmlhttp.request'],
    ['ABCdef', 'ab.cdef'],
    ['A', 'a'],
    ['order', 'order'],
    ['OrderV2Placed', 'order.v2placed'],
    ['ÄnderungGebucht', 'änderung.gebucht'],
    ['Already_snake', 'already_snake'],
    ['', ''],
  ])('splits %s into %s', (name, dotted) => {
    expect(dotCase(name)).toBe(dotted)
  })

  it('joins the same words with a hyphen or an underscore', () => {
    expect(kebabCase('HTTPRequestFailed')).toBe('http-request-failed')
    expect(snakeCase('HTTPRequestFailed')).toBe('http_request_failed')
  })

  it('leaves a name unchanged on request', () => {
    expect(asIs('HTTPRequest')).toBe('HTTPRequest')
    expect(asIs('')).toBe('')
  })

  it('only inserts separators and lowers letters', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[A-Za-z0-9]{0,30}$/), (name) => {
        expect(dotCase(name).replaceAll('.', '')).toBe(name.toLowerCase())
        expect(kebabCase(name)).toBe(dotCase(name).replaceAll('.', '-'))
        expect(snakeCase(name)).toBe(dotCase(name).replaceAll('.', '_'))
      }),
    )
  })

  it('changes nothing the second time', () => {
    fc.assert(
      fc.property(fc.string(), (name) => {
        expect(dotCase(dotCase(name))).toBe(dotCase(name))
      }),
    )
  })
})
