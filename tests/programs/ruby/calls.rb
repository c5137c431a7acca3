# SPDX-License-Identifier: MIT
# Calls the driver by Fiddle, which releases Ruby's global lock during a call.
require 'fiddle'

module Driver
  LIBRARY = Fiddle.dlopen('libcuda.so.1')
  def self.function(name, *arguments) = Fiddle::Function.new(LIBRARY[name], arguments, Fiddle::TYPE_INT)
  INIT = function('cuInit', Fiddle::TYPE_INT)
  RETAIN = function('cuDevicePrimaryCtxRetain', Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT)
  SET = function('cuCtxSetCurrent', Fiddle::TYPE_VOIDP)
  ALLOC = function('cuMemAlloc_v2', Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T)
  FREE = function('cuMemFree_v2', Fiddle::TYPE_VOIDP)

  def self.prepare
    context = Fiddle::Pointer.malloc(8)
    INIT.call(0)
    RETAIN.call(context, 0)
    SET.call(context.ptr)
  end

  def self.alloc(bytes)
    result = Fiddle::Pointer.malloc(8)
    ALLOC.call(result, bytes) # @alloc
    result.ptr.to_i
  end
end

class Net
  def weights = Driver.alloc(1000) # @weights
  def activations = Driver.alloc(300) # @activations

  def leak
    weights # @leak-weights
    [1].each { activations } # @leak-activations
  end
end

case ARGV[0]
when 'leak'
  Driver.prepare
  3.times { Net.new.leak } # @main
when 'eval'
  Driver.prepare
  eval("def made = Driver.alloc(700)\nmade", nil, 'made.rb', 40)
when 'load'
  threads = (1..4).map do
    Thread.new do
      Driver.prepare
      50.times { Net.new.leak; 'x' * 10_000 }
    end
  end
  collector = Thread.new do
    200.times { |i| i.odd? && GC.respond_to?(:compact) ? GC.compact : GC.start; Thread.pass }
  end
  (threads + [collector]).each(&:join)
when 'collect'
  Driver.prepare
  20.times do
    address = Driver.alloc(500)
    Fiddle::Pointer.new(address, 0, Driver::LIBRARY['cuMemFree_v2'])
    Driver::FREE.call(address) # @freed
  end
  5.times { GC.start; 'x' * 100_000 }
when 'fork'
  Process.wait(fork { Driver.prepare; Net.new.activations; exit!(0) })
  Driver.prepare
  Net.new.weights
end
puts 'worked'
