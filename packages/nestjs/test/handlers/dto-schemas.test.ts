import { defineEvent } from '@ackord/core'
import { Injectable } from '@nestjs/common'
import { Test } from '@nestjs/testing'
import { plainToInstance, Type } from 'class-transformer'
import { IsInt, IsString, Min, ValidateNested, validate } from 'class-validator'
import { describe, expect, it } from 'vitest'
import { dtoSchemas, OnCommand } from '../../src/index.ts'
import { AckordTestingModule, deliver } from '../../src/testing/index.ts'

class Line {
  @IsString() product!: string
  @IsInt() @Min(1) quantity!: number
}

class PlaceOrder {
  @IsString() orderId!: string
  @ValidateNested({ each: true }) @Type(() => Line) lines!: Line[]
}

const schemaOf = dtoSchemas({ validate, plainToInstance, validatorOptions: { whitelist: true } })
const placeOrder = defineEvent('order.place', schemaOf(PlaceOrder))

describe('dtoSchemas()', () => {
  it('gives handlers validated instances, and rejects messages that are not valid', async () => {
    const seen: PlaceOrder[] = []
    @Injectable()
    class Orders {
      @OnCommand(placeOrder)
      place(order: PlaceOrder) {
        seen.push(order)
      }
    }
    const module = await Test.createTestingModule({ imports: [AckordTestingModule.forRoot()], providers: [Orders] }).compile()
    module.useLogger(false)
    const order = { orderId: 'o-1', lines: [{ product: 'lamp', quantity: 2 }], unknown: true } as unknown as PlaceOrder

    await deliver(module, placeOrder(order))
    const invalid = deliver(module, placeOrder({ orderId: 'o-2', lines: [{ product: 'lamp', quantity: 0 }] }))

    await expect(invalid).rejects.toMatchObject({
      code: 'ACKORD_VALIDATION_FAILED',
      retryable: false,
      message: expect.stringContaining('lines.0.quantity: quantity must not be less than 1'),
    })
    await expect(deliver(module, placeOrder('text' as never))).rejects.toMatchObject({ code: 'ACKORD_VALIDATION_FAILED' })
    expect(seen).toEqual([{ orderId: 'o-1', lines: [{ product: 'lamp', quantity: 2 }] }])
    expect([seen[0], seen[0]?.lines[0]]).toEqual([expect.any(PlaceOrder), expect.any(Line)])
    await module.close()
  })

  it('requires the two functions', () => {
    expect(() => dtoSchemas({ validate } as never)).toThrow('plainToInstance must be a function')
  })
})
