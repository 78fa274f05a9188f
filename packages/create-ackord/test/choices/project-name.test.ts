import { describe, expect, it } from 'vitest'
import { checkProjectName, resourcePrefix, suggestProjectName } from '../../src/choices/project-name.ts'

describe('the name of a project', () => {
  it.each(['shop', '@acme/shop', 'order-service', 'shop2.orders', '2nd'])('may be %s', (name) => {
    expect(checkProjectName(name)).toBe(name)
  })

  it.each(['', 'Shop', 'my shop', '.shop', '_shop', 'shop!', '@acme/', '@/shop', 'a/b', 'node_modules', 'a'.repeat(215)])(
    'must not be %j',
    (name) => {
      expect(() => checkProjectName(name)).toThrow('is not a valid name for a package')
    },
  )

  it('is suggested where it can be', () => {
    expect(suggestProjectName('My Shop!')).toBe('my-shop')
    expect(suggestProjectName('_Shop')).toBe('shop')
    expect(suggestProjectName('???')).toBeUndefined()
  })

  it('begins names at every broker', () => {
    expect(resourcePrefix('@acme/shop.orders')).toBe('shop-orders')
    expect(resourcePrefix('~')).toBe('orders')
    expect(resourcePrefix('s'.repeat(200))).toHaveLength(60)
  })
})
