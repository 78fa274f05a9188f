import type { ServerResponse } from 'node:http'
import { BadRequestException, Body, Controller, HttpStatus, Inject, Post, Res } from '@nestjs/common'
import type { Order } from './entities.ts'
import { OrdersService } from './orders.service.ts'

@Controller('orders')
export class OrdersController {
  readonly #orders: OrdersService

  constructor(@Inject(OrdersService) orders: OrdersService) {
    this.#orders = orders
  }

  /** 201, or 200 if the order was placed before. A client that received no answer may retry. */
  @Post()
  async place(@Body() body: unknown, @Res({ passthrough: true }) response: ServerResponse): Promise<{ readonly id: string }> {
    if (!isOrder(body)) throw new BadRequestException('An order has an id, a product and a quantity of at least 1.')
    response.statusCode = (await this.#orders.place(body)) ? HttpStatus.CREATED : HttpStatus.OK
    return { id: body.id }
  }
}

/**
 * INSERT IGNORE, which detects repeated orders, also truncates values that are too long for their column, and MariaDB treats `O-1` and `o-1` as the
 * same key. Either could mistake a new order for an old one, so both are rejected here.
 */
function isOrder(value: unknown): value is Order {
  const { id, product, quantity } = (value ?? {}) as Record<string, unknown>
  if (typeof id !== 'string' || !/^[a-z0-9-]{1,36}$/.test(id)) return false
  if (typeof product !== 'string' || product.length > 100) return false
  return Number.isSafeInteger(quantity) && Number(quantity) > 0 && Number(quantity) < 2 ** 31
}
